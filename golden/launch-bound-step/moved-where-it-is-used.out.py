# golden: change script numerics=bitwise
"""The step moves its batch to the device where it uses it; the call of the step does so instead."""
import torch
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)


def train_step(images, labels):
    optimizer.zero_grad()
    logits = net(images)
    loss = loss_function(logits, labels)
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(3):
    net.train()
    running_loss, count = 0.0, 0
    for step, data in enumerate(train_loader):
        images, labels = data
        loss = train_step(images.to(device), labels.to(device))
        count += images.shape[0]

        # print statistics
        running_loss += loss.item()
    print(epoch, count, running_loss)
