# golden: change opt-in report-every=3 numerics=behavioural
"""A regression whose epochs are its steps."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 32).unsqueeze(1)
y = x**3
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()

for epoch in range(1, 9):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("Epoch {}, loss {:.4f}".format(epoch, loss.item()))


def probe():
    return model
