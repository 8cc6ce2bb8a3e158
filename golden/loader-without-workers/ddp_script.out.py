# golden: change unsafe script numerics=rounding
"""A script of DistributedDataParallel: every rank reads its part of the samples, and the first one reports."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Numbers(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        torch.ones(200, 200).sum()
        return torch.full((4,), float(index)), torch.tensor([index % 2.0])


def main():
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    rank = int(os.environ.get("LOCAL_RANK", 0))
    if world_size > 1:
        dist.init_process_group("nccl")
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = nn.Linear(4, 1).to(device)
    if world_size > 1:
        model = DDP(model, device_ids=[rank])
    dataset = Numbers()
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=False)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, pin_memory=True,
                        num_workers=min(8, os.cpu_count() or 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(1):
        sampler.set_epoch(epoch)
        for images, targets in loader:
            images, targets = images.to(device, non_blocking=True), targets.to(device, non_blocking=True)
            loss = (model(images) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}")
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
