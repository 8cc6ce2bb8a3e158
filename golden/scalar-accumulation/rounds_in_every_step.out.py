# golden: change opt-in
"""The critic trains in rounds of its own in every step, and the line behind them waits in every step."""

import torch
from torch import nn


def train(generator, critic, rounds, device):
    generate = torch.optim.SGD(generator.parameters(), lr=0.1)
    judge = torch.optim.SGD(critic.parameters(), lr=0.1)
    for step in range(rounds):
        judged, seen = 0.0, []
        for _ in range(2):
            real, noise = torch.randn(5, 4, device=device), torch.randn(5, 2, device=device)
            judgement = critic(generator(noise).detach()).mean() - critic(real).mean()
            judge.zero_grad()
            judgement.backward()
            judge.step()
            judged += judgement.detach()
            seen.append(judgement.detach())
        judged = float(judged)
        seen = torch.stack(seen).tolist()
        loss = -critic(generator(torch.randn(5, 2, device=device))).mean()
        generate.zero_grad()
        loss.backward()
        generate.step()
        print(step, judged / 2, max(seen))


def cases(make):
    yield (0,)
    yield (3,)


def probe(rounds):
    torch.manual_seed(0)
    generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train(generator.to(device), critic.to(device), rounds, device)
    return *generator.parameters(), *critic.parameters()
