# golden: stay silent
"""Small language models estimate their loss now and then, and store one number of every batch in a tensor."""

import torch
import torch.nn.functional as F
from torch import nn

eval_iters = 5
batches = {}


def get_batch(split, k, device):
    x, y = batches[split][k]
    return x.to(device), y.to(device)


@torch.no_grad()
def estimate_loss(model, device):
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            x, y = get_batch(split, k, device)
            loss = F.cross_entropy(model(x), y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


def train(model, optimizer, device):
    for step in range(6):
        if step % 3 == 0:
            losses = estimate_loss(model, device)
            print(f"step {step}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        x, y = get_batch("train", step % eval_iters, device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def cases(make):
    for dtype in make.floats:
        yield (dtype,)


def probe(dtype):
    torch.manual_seed(0)
    for split in ("train", "val"):
        scale = torch.tensor([1e-3, 1.0, 1e3, float("inf"), float("nan")], dtype=dtype)
        batches[split] = [(torch.randn(8, 4, dtype=dtype) * scale[k], torch.randint(3, (8,))) for k in range(eval_iters)]
    model = nn.Linear(4, 3).to(dtype)
    print(estimate_loss(model, torch.device("cpu")))
    batches["train"] = batches["train"][:2] * 3
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.device("cpu"))
    return model
