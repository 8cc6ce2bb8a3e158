"""Gradient accumulation with clipping by norm and a warm-up schedule; the last group of an epoch is a short one."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(42)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

ACCUMULATE = 4
EPOCHS = 3
MAX_NORM = 0.25


class Sequences(Dataset):
    def __init__(self, n=280, length=20):
        noise = torch.randn(n, length, 6)
        self.y = torch.randint(0, 3, (n,))
        self.x = noise.cumsum(dim=1) * 0.2 + self.y[:, None, None].float() * 0.3

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 24, 5, padding=2)
        self.norm = nn.GroupNorm(4, 24)
        self.key = nn.Linear(24, 24)
        self.value = nn.Linear(24, 24)
        self.fc1 = nn.Linear(24, 48)
        self.fc2 = nn.Linear(48, 3)
        self.act = nn.SiLU()

    def forward(self, x):
        h = self.act(self.norm(self.conv(x.transpose(1, 2))))
        h = h.transpose(1, 2)
        k, v = self.key(h), self.value(h)
        attention = torch.softmax(torch.bmm(h, k.transpose(1, 2)) / 24**0.5, dim=2)
        h = h + torch.bmm(attention, v)
        h = h.mean(dim=1)
        return self.fc2(self.act(self.fc1(h)))


def warmup(step):
    return min(1.0, (step + 1) / 8) * 0.97**step


def main():
    dataset = Sequences()
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    model = Classifier().to(device)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
    scheduler = LambdaLR(optimizer, warmup)
    criterion = nn.CrossEntropyLoss()
    updates = 0
    for epoch in range(EPOCHS):
        model.train()
        epoch_loss = 0.0
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            group = min(ACCUMULATE, len(loader) - i // ACCUMULATE * ACCUMULATE)
            (loss / group).backward()
            epoch_loss += loss.item()
            if (i + 1) % ACCUMULATE == 0 or i + 1 == len(loader):
                norm = clip_grad_norm_(model.parameters(), MAX_NORM)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                updates += 1
                if updates % 4 == 0:
                    print(f"update {updates}: loss {loss.item():.4f}, norm {norm.item():.4f}")
        print(f"epoch {epoch}: {epoch_loss / len(loader):.4f}")
    torch.save({"model": model.state_dict(), "scheduler": scheduler.state_dict()}, "accumulated.pt")


if __name__ == "__main__":
    main()
