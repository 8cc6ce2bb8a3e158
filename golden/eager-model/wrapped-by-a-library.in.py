# golden: stay script silent
"""Code out of sight makes another model of it in some runs."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

try:
    from apex.parallel import DistributedDataParallel as DDP
except ImportError:
    DDP = None


def setup():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model.to(device)
    return model


def train(args, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(4)]
    # Distributed training
    if args.local_rank != -1:
        model = DDP(model, message_size=250000000)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(round(loss.item(), 4))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
train(parser.parse_args(), setup())
