# golden: change syncs=0 hot=train_step
"""BERT-style masking inside the training step: labels that were not masked are ignored."""
import torch
import torch.nn.functional as F
from torch import nn

MASK_ID, IGNORE = 1, -100


def train_step(model, optimizer, batch, device):
    input_ids = batch["input_ids"].to(device, non_blocking=True)
    labels = input_ids.clone()
    chosen = torch.rand(labels.shape, device=device) < 0.15
    unmasked = ~chosen
    labels[unmasked] = IGNORE
    input_ids = input_ids.clone()
    input_ids[chosen] = MASK_ID
    loss = F.cross_entropy(model(input_ids).flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(device, steps=4):
    model = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        batch = {"input_ids": torch.randint(2, 11, (3, 8)).pin_memory() if device.type == "cuda" else torch.randint(2, 11, (3, 8))}
        losses.append(train_step(model, optimizer, batch, device))
    return model, losses


def cases(make):
    yield make.device,


def probe(device):
    return train(device)
