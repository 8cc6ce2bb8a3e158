# golden: stay refused
"""Reinforcement learning: the number is an action, and the environment runs on the host."""
import torch
from torch import nn


def rollout(policy, state, steps=4):
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    actions = []
    for _ in range(steps):
        scores = policy(state)
        action = scores.argmax().item()
        state = state.roll(action)
        loss = -scores.log_softmax(-1)[action]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        actions.append(action)
    return actions


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((3,))


def probe(policy, state):
    return rollout(policy, state)
