"""A character-like language model: embedding, two LSTM layers with dropout, Adam, padded batches of sequences."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(2024)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

VOCAB = 30
EMBED = 24
HIDDEN = 32
PAD = 0
EPOCHS = 3


def make_sequences(n):
    table = torch.softmax(torch.randn(VOCAB, VOCAB) * 2, dim=1)
    table[:, PAD] = 0
    sequences = []
    for _ in range(n):
        length = int(torch.randint(8, 17, (1,)))
        tokens = [int(torch.randint(1, VOCAB, (1,)))]
        while len(tokens) < length:
            tokens.append(int(torch.multinomial(table[tokens[-1]], 1)))
        sequences.append(torch.tensor(tokens))
    return sequences


def collate(batch):
    inputs = pad_sequence([s[:-1] for s in batch], batch_first=True, padding_value=PAD)
    targets = pad_sequence([s[1:] for s in batch], batch_first=True, padding_value=PAD)
    return inputs, targets


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMBED, padding_idx=PAD)
        self.lstm1 = nn.LSTM(EMBED, HIDDEN, batch_first=True)
        self.lstm2 = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.decoder = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens):
        x = self.dropout(self.embed(tokens))
        x, _ = self.lstm1(x)
        x = self.dropout(x)
        x, _ = self.lstm2(x)
        return self.decoder(x)


loader = DataLoader(make_sequences(150), batch_size=14, shuffle=True, collate_fn=collate)
model = LanguageModel().to(device)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-8)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)

for epoch in range(EPOCHS):
    model.train()
    total_loss = 0.0
    total_tokens = 0
    for batch_idx, (inputs, targets) in enumerate(loader):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        logits = model(inputs)
        loss = criterion(logits.reshape(-1, VOCAB), targets.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.15)
        optimizer.step()
        tokens = (targets != PAD).sum().item()
        total_loss += loss.item() * tokens
        total_tokens += tokens
        if batch_idx % 5 == 0:
            print(f"| epoch {epoch} | batch {batch_idx:2d} | loss {loss.item():.4f}")
    scheduler.step()
    print(f"epoch {epoch}: {total_loss / total_tokens:.4f} nats per token")
