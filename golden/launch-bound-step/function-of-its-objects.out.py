# golden: change script numerics=rounding
"""A function that is given what it trains, with clipping; Adam is told to keep its counts on the device."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]


def fit(model, optimizer, epoch):
    model.train()

    def train_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    train_step = GraphedStep(train_step, [optimizer])

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
    print(epoch, round(loss.item(), 3))


def main():
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    adam = optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1, fused=True, capturable=True)
    for epoch in range(3):
        fit(net, adam, epoch)


if __name__ == "__main__":
    main()
