# golden: change script
"""A loss whose mean is taken by hand, with a factor; code under the guard."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def sum_of_processes(value):
    """The sum of a value over all processes."""
    value = value.detach().clone()
    dist.all_reduce(value)
    return value


WEIGHT = 0.5

if __name__ == '__main__':
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    torch.manual_seed(0)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    samples = TensorDataset(torch.randn(16, 6), torch.randn(16, 3))
    if 4 % dist.get_world_size():
        raise ValueError("the batch size 4 has to be a multiple of the number of processes")
    sampler = torch.utils.data.DistributedSampler(samples, shuffle=False, drop_last=True)
    loader = DataLoader(samples, batch_size=4 // dist.get_world_size(), sampler=sampler, drop_last=True)
    model = nn.Linear(6, 3)
    model = nn.parallel.DistributedDataParallel(
        model.to(device), device_ids=[local_rank] if torch.cuda.is_available() else None
    )
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        losses = []
        for batch in loader:
            x, y = batch
            out = model(x.to(device))
            loss = WEIGHT * ((out - y.to(device)) ** 2).mean() + F.l1_loss(out, y.to(device))
            optimizer.zero_grad()
            loss.backward()
            loss = sum_of_processes(loss) / dist.get_world_size()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        if dist.get_rank() == 0:
            print(epoch, sum(losses) / len(losses))
    dist.destroy_process_group()
