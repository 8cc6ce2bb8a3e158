# golden: change script
"""The loops stand in functions; evaluation runs over all samples in each process."""
import argparse
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


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    total = 0.0
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.cross_entropy(output, target)
        loss.backward()
        loss = sum_of_processes(loss) / dist.get_world_size()
        optimizer.step()
        total += loss.item()
        if batch_idx % args.log_interval == 0:
            if dist.get_rank() == 0:
                print(f"Train epoch {epoch} [{batch_idx}/{len(train_loader)}] loss: {loss.item():.6f}")
    if dist.get_rank() == 0:
        print("Mean loss:", total / len(train_loader))


def test(model, device, test_loader):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.cross_entropy(output, target, reduction="sum").item()
            correct += output.argmax(1).eq(target).sum().item()
    if dist.get_rank() == 0:
        print(f"Test loss: {test_loss / len(test_loader.dataset):.4f}, accuracy: {correct}/{len(test_loader.dataset)}")


def main():
    """Trains on numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--log-interval", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_set = TensorDataset(torch.randn(32, 6), torch.randint(3, (32,)))
    if args.batch_size % dist.get_world_size():
        raise ValueError("the batch size args.batch_size has to be a multiple of the number of processes")
    sampler = torch.utils.data.DistributedSampler(train_set, shuffle=False)
    train_loader = torch.utils.data.DataLoader(train_set, batch_size=args.batch_size // dist.get_world_size(),
                                               sampler=sampler)
    test_set = TensorDataset(torch.randn(9, 6), torch.randint(3, (9,)))
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=args.batch_size)

    model = Net().to(device)
    model = nn.parallel.DistributedDataParallel(
        model, device_ids=[local_rank] if torch.cuda.is_available() else None
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 3):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
