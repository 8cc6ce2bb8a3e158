# golden: change
"""The parameters of a network without modules stand in a list."""
import torch
import torch.nn.functional as F


def fit(batches, weights):
    parameters = [w.clone().requires_grad_() for w in weights]
    for x, y in batches:
        logits = torch.tanh(x @ parameters[0]) @ parameters[1]
        loss = F.cross_entropy(logits, y)
        for p in parameters:
            if p.grad is not None:
                p.grad = None  # else they add up
        loss.backward()
        for p in parameters:
            p.data -= 0.1 * p.grad
    return [p.detach() for p in parameters]


def cases(make):
    batches = [(make.tensor((4, 3), finite=True), make.labels((4,), 2)) for _ in range(3)]
    yield batches, [make.tensor((3, 5), finite=True), make.tensor((5, 2), finite=True)]


def probe(batches, weights):
    return fit(batches, weights)
