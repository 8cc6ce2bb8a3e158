# golden: change numerics=rounding
"""Both models are made in one statement, and each is compiled."""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def probe():
    torch.manual_seed(1)
    model, critic = nn.Linear(3, 8).to(device), nn.Linear(8, 1).to(device)
    critic.compile()
    model.compile()
    optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
    for _ in range(3):
        loss = critic(torch.relu(model(torch.randn(6, 3).to(device)))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach(), model.state_dict(), critic.state_dict()
