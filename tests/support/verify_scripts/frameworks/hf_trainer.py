import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class TextDataset(Dataset):
    def __init__(self, rows, vocabulary=50, length=12):
        self.input_ids = torch.randint(5, vocabulary, (rows, length))
        self.labels = (self.input_ids.sum(dim=1) % 2).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        ids = self.input_ids[idx]
        return {'input_ids': ids, 'attention_mask': torch.ones_like(ids), 'labels': self.labels[idx]}


set_seed(3)
config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    num_labels=2,
)
training_args = TrainingArguments(
    output_dir='./results',
    num_train_epochs=10,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    warmup_steps=5,
    logging_steps=2,
    save_steps=4,
    report_to='none',
)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=training_args,
    train_dataset=TextDataset(80),
)
trainer.train()
