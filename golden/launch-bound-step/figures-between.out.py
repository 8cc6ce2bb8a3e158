# golden: change script numerics=bitwise
"""Figures that are added up between the forward and the backward pass are added up behind the step."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)


def train_step(img, label):
    # forward
    out = model(img)
    loss = criterion(out, label)
    _, pred = torch.max(out, 1)
    # backward
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, pred


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(2):
    running_loss = 0.0
    running_acc = 0
    for i, (img, label) in enumerate(loader, 1):
        img = img.to(device)
        label = label.to(device)
        loss, pred = train_step(img, label)
        running_loss += loss.item() * label.size(0)
        running_acc += (pred == label).sum().item()
    print(epoch, i, running_loss, running_acc)
