# golden: change script numerics=bitwise
"""A function that trains on one batch and is called by the loop."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss().to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train_step(inputs, labels):
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])


def train(data):
    inputs, labels = data[0].to(device=device), data[1].to(device=device)
    loss = train_step(inputs, labels)
    return loss.item()


for batch in loader:
    print(train(batch))
