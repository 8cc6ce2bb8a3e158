# golden: change script numerics=bitwise
"""Figures that methods of tensors compute are computed behind the step; a text that shows a loss keeps none of it."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)


def smooth_loss(logits, labels):
    return 0.9 * F.cross_entropy(logits, labels) - 0.1 * F.log_softmax(logits, dim=1).mean()


criterion = smooth_loss


def train_step(x, label):
    out = model(x)
    loss = criterion(out, label)
    _, pred = torch.max(out, 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, pred


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(2):
    running_acc = 0.0
    for x, label in loader:
        x = x.to(device)
        label = label.to(device)
        loss, pred = train_step(x, label)
        running_acc += (pred == label).float().mean()
    print("epoch {}, loss: {:.4f}, "
          "accuracy: {:.4f}".format(epoch, loss.data, running_acc / len(loader)))
