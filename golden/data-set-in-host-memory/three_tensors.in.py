# golden: change script
"""Weights of the samples come as a third tensor; the loop counts its batches."""
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(30, 4)
train_ds = TensorDataset(inputs, torch.randint(3, (30,)), torch.rand(30))
train_dl = DataLoader(
    train_ds,
    batch_size=8,
    shuffle=True,
    pin_memory=True,
)
print(len(train_ds), len(train_dl), RandomSampler.__name__)
model = nn.Linear(4, 3).to(device)
optimizer = optim.Adam(model.parameters(), lr=0.01)

for epoch in range(2):
    total = 0
    for step, (data, target, weight) in enumerate(train_dl, start=1):
        total += data.size(0)
        data = data.to(device)
        target, weight = target.to(device), weight.to(device)
        optimizer.zero_grad()
        losses = F.cross_entropy(model(data), target, reduction="none")
        (losses * weight).mean().backward()
        optimizer.step()
    print(step, total, losses.sum().item())
print(torch.rand(2).tolist())
