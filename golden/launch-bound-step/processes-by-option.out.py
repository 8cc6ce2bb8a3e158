# golden: change script numerics=bitwise
"""An option says whether other processes train with this one; with them, the recorder leaves the step as it is."""
import argparse

import torch
import torch.distributed as dist
from torch import nn, optim

from graphed_step import GraphedStep


def init_distributed_mode(args):
    if not args.distributed:
        print("one process")
        return
    dist.init_process_group("gloo")


parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
init_distributed_mode(args)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(6)]
model = nn.Linear(4, 1).to(device)
if args.distributed:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = optim.SGD(model.parameters(), lr=0.01)


def train_step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for x in loader:
    x = x.to(device)
    loss = train_step(x)
    print(loss.item())
