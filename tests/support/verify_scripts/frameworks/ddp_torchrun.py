import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group('nccl' if cuda else 'gloo')
    local_rank = int(os.environ['LOCAL_RANK'])
    device = torch.device('cuda', local_rank) if cuda else torch.device('cpu')

    torch.manual_seed(0)
    x = torch.randn(160, 8)
    y = x.sum(dim=1, keepdim=True).sin()
    dataset = TensorDataset(x, y)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)

    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    model = DDP(model, device_ids=[local_rank] if cuda else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(5):
        sampler.set_epoch(epoch)
        for source, target in loader:
            source, target = source.to(device), target.to(device)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(source), target)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f'epoch {epoch}: {loss.item():.4f}')

    dist.destroy_process_group()


if __name__ == '__main__':
    main()
