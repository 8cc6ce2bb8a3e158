"""A small convolutional classifier: BatchNorm, dropout, SGD with momentum, weight decay and a cosine schedule."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 7
EPOCHS = 3
BATCH = 16
LR = 0.05

random.seed(SEED)
torch.manual_seed(SEED)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(24)
        self.drop1 = nn.Dropout2d(0.1)
        self.drop2 = nn.Dropout(0.3)
        self.hidden = nn.Linear(24 * 9, 32)
        self.out = nn.Linear(32, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = self.drop1(x)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.hidden(x))
        return self.out(self.drop2(x))


def make_data(n):
    generator = torch.Generator().manual_seed(SEED)
    labels = torch.randint(0, 4, (n,), generator=generator)
    images = torch.randn(n, 3, 12, 12, generator=generator)
    for i in range(n):
        images[i, labels[i] % 3, 3 * (labels[i] // 2) : 6 + 3 * (labels[i] // 2)] += 1.0
    return TensorDataset(images, labels)


def main():
    train_set = make_data(200)
    test_set = make_data(64)
    train_loader = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=64)
    model = Net().to(device)
    decay = [p for p in model.parameters() if p.dim() > 1]
    no_decay = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 5e-3}, {"params": no_decay, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=LR, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(train_loader))
    criterion = nn.CrossEntropyLoss()

    step = 0
    for epoch in range(EPOCHS):
        model.train()
        running, seen, correct = 0.0, 0, 0
        for images, labels in train_loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            output = model(images)
            loss = criterion(output, labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            running += loss.item() * len(images)
            correct += (output.argmax(1) == labels).sum().item()
            seen += len(images)
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}")
        model.eval()
        hits = 0
        with torch.no_grad():
            for images, labels in test_loader:
                hits += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
        print(f"epoch {epoch}: loss {running / seen:.4f} train {correct / seen:.3f} test {hits / len(test_set):.3f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "convnet.pt")


if __name__ == "__main__":
    main()
