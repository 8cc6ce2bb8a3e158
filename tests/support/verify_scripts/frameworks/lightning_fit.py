import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class LitClassifier(L.LightningModule):
    def __init__(self, hidden=24, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(12, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(hidden, 3),
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log('train_loss', loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log('val_loss', F.cross_entropy(self(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)]


def main():
    L.seed_everything(7)
    x = torch.randn(96, 12)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    train_set, val_set = random_split(TensorDataset(x, y), [80, 16])

    trainer = L.Trainer(
        max_epochs=10,
        accumulate_grad_batches=2,
        gradient_clip_val=0.5,
        num_sanity_val_steps=1,
        log_every_n_steps=1,
    )
    trainer.fit(
        LitClassifier(),
        DataLoader(train_set, batch_size=8, shuffle=True),
        DataLoader(val_set, batch_size=8),
    )


if __name__ == '__main__':
    main()
