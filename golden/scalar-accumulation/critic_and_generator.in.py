# golden: change
"""The critic trains in rounds of its own, the generator behind them: the rounds of both are steps'."""

import torch
from torch import nn


def train(generator, critic, rounds, device):
    generate = torch.optim.SGD(generator.parameters(), lr=0.1)
    judge = torch.optim.SGD(critic.parameters(), lr=0.1)
    total, everything = 0.0, []
    for step in range(rounds):
        for _ in range(2):
            real, noise = torch.randn(5, 4, device=device), torch.randn(5, 2, device=device)
            judgement = critic(generator(noise).detach()).mean() - critic(real).mean()
            judge.zero_grad()
            judgement.backward()
            judge.step()
            everything.append(judgement.item())
        loss = -critic(generator(torch.randn(5, 2, device=device))).mean()
        generate.zero_grad()
        loss.backward()
        generate.step()
        total += loss.item()
    return total, everything


def cases(make):
    yield (0,)
    yield (3,)


def probe(rounds):
    torch.manual_seed(0)
    generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    total, everything = train(generator.to(device), critic.to(device), rounds, device)
    return total, everything, *generator.parameters(), *critic.parameters()
