# golden: change script
"""The script asks whether the model is wrapped, and saves it without the wrapper."""
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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.head = nn.Linear(12, 3)

    def encode(self, x):
        return torch.relu(self.body(x))

    def forward(self, x):
        return self.head(self.encode(x))


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    samples = TensorDataset(torch.randn(24, 6), torch.randint(3, (24,)))
    if 8 % dist.get_world_size():
        raise ValueError("the batch size 8 has to be a multiple of the number of processes")
    sampler = torch.utils.data.DistributedSampler(samples, shuffle=False, drop_last=True)
    loader = DataLoader(samples, batch_size=8 // dist.get_world_size(), drop_last=True, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(
        Net().to(device), device_ids=[local_rank] if torch.cuda.is_available() else None
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            loss = sum_of_processes(loss) / dist.get_world_size()
            optimizer.step()
        if isinstance(model, nn.parallel.DistributedDataParallel):
            if dist.get_rank() == 0:
                torch.save(model.module.state_dict(), "model.pt")
        else:
            if dist.get_rank() == 0:
                torch.save(model.state_dict(), "model.pt")
        if dist.get_rank() == 0:
            print(epoch, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
