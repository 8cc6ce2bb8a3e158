import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super(ToyModel, self).__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_basic(rank, world_size, rendezvous):
    dist.init_process_group('gloo', init_method=f'file://{rendezvous}', rank=rank, world_size=world_size)

    torch.manual_seed(1234 + rank)
    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.01)

    for _ in range(40):
        optimizer.zero_grad()
        outputs = ddp_model(torch.randn(20, 10))
        labels = torch.randn(20, 5)
        loss_fn(outputs, labels).backward()
        optimizer.step()

    dist.destroy_process_group()


if __name__ == '__main__':
    world_size = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    mp.spawn(demo_basic, args=(world_size, os.path.abspath('rendezvous')), nprocs=world_size, join=True)
