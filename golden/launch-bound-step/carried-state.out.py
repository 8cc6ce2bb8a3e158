# golden: change script numerics=bitwise
"""A state that each batch hands to the next one is given to the step and returned by it."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
cell = nn.GRUCell(4, 6).to(device)
head = nn.Linear(6, 3).to(device)
optimizer = optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)


def fit_step(x, hidden, y):
    optimizer.zero_grad()
    hidden = cell(x, hidden.detach())
    loss = F.cross_entropy(head(hidden), y)
    loss.backward()
    optimizer.step()
    return hidden, loss


fit_step = GraphedStep(fit_step, [optimizer])


def fit(epochs):
    for epoch in range(epochs):
        hidden = torch.zeros(5, 6, device=device)
        for x, y in loader:
            x, y = x[:5].to(device), y[:5].to(device)
            hidden, loss = fit_step(x, hidden, y)
            print(loss.item())
        print(hidden.sum().item())


fit(2)
