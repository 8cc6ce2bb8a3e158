"""Regression with a multi-layer perceptron whose parameters are updated by hand: momentum, weight decay, schedule."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
lr = 0.02
momentum = 0.9
weight_decay = 1e-2
epochs = 3


def build():
    sizes = [10, 48, 48, 1]
    params = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        w = (torch.randn(n_in, n_out) * (2.0 / n_in) ** 0.5).to(device).requires_grad_()
        b = torch.zeros(n_out, device=device, requires_grad=True)
        params += [w, b]
    return params


def forward(params, x):
    h = x
    last = len(params) // 2 - 1
    for i in range(last + 1):
        w, b = params[2 * i], params[2 * i + 1]
        h = h @ w + b
        if i < last:
            h = torch.relu(h)
    return h[:, 0]


def toy_data(n=180):
    x = torch.randn(n, 10)
    y = torch.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.1 * torch.randn(n)
    return x, y


x, y = toy_data()
mean, std = x.mean(0), x.std(0)
loader = DataLoader(TensorDataset((x - mean) / std, y), batch_size=16, shuffle=True)

params = build()
velocity = [torch.zeros_like(p) for p in params]

it = 0
for epoch in range(epochs):
    if epoch == 2:
        lr *= 0.5
    running = 0.0
    for xb, yb in loader:
        xb, yb = xb.to(device), yb.to(device)
        pred = forward(params, xb)
        loss = ((pred - yb) ** 2).mean()
        loss.backward()
        for p, v in zip(params, velocity):
            if p.dim() > 1:
                p.grad.add_(p.data, alpha=weight_decay)
            v.mul_(momentum).add_(p.grad)
            p.data.add_(v, alpha=-lr)
            p.grad.zero_()
        running += loss.item() * xb.size(0)
        it += 1
        if it % 6 == 0:
            print("iter", it, "loss", loss.item())
    print("epoch", epoch, "mse", running / len(loader.dataset))

with torch.no_grad():
    print("final", (forward(params, ((x - mean) / std).to(device)) - y.to(device)).pow(2).mean().item())
