# golden: change
"""Gradient descent without an optimizer, as in the first tutorial."""
import torch


def fit(x, y, w, b):
    for step in range(4):
        loss = (x @ w + b - y).square().mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            # Manually zero the gradients
            w.grad = None
            b.grad = None
    return w.detach(), b.detach()


def cases(make):
    x, y = make.tensor((5, 3), finite=True), make.tensor((5,), finite=True)
    yield x, y, make.tensor((3,), finite=True), make.tensor((), finite=True)


def probe(x, y, w, b):
    return fit(x, y, w.clone().requires_grad_(), b.clone().requires_grad_())
