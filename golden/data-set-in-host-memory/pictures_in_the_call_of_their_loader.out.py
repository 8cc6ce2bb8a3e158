# golden: change unsafe numerics=bitwise script
"""The data sets stand in the calls of their loaders, whose workers come out of a dictionary."""
import argparse
import struct
import tempfile
from pathlib import Path

import torch
import torch.utils.data
from torch import nn, optim
from torchvision import datasets, transforms


def batches_of(data_set):
    """Takes whole batches out of tensors on a device, by indices that are copied there without waiting for it."""
    device = data_set.tensors[0].device

    def taken(indices):
        indices = torch.tensor(indices, device="cpu", pin_memory=device.type == "cuda")
        return list(data_set[indices.to(device, non_blocking=True)])

    return taken


def written(name="MNIST", number=37):
    """A folder with a few pictures in the files of the data set."""
    folder = Path(tempfile.mkdtemp())
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    draw = torch.Generator().manual_seed(3)
    for part in ("train", "t10k"):
        pixels = torch.randint(256, (number, 28, 28), dtype=torch.uint8, generator=draw).numpy().tobytes()
        labels = torch.randint(10, (number,), dtype=torch.uint8, generator=draw).numpy().tobytes()
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, number, 28, 28) + pixels)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, number) + labels)
    return folder


parser = argparse.ArgumentParser(description='Pictures')
parser.add_argument('--batch-size', type=int, default=8, metavar='N')
parser.add_argument('--epochs', type=int, default=2, metavar='N')
args = parser.parse_args()
args.cuda = torch.cuda.is_available()
torch.manual_seed(1)
device = torch.device("cuda" if args.cuda else "cpu")
root = written()

kwargs = {'num_workers': 1, 'pin_memory': True} if args.cuda else {}
# The loaders.
train_set = datasets.MNIST(
    root,
    train=True,
    download=True,
    transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]),
)
train_set = torch.utils.data.TensorDataset(
    *(part.to(device) for part in torch.utils.data.default_collate([*train_set]))
)
train_loader = torch.utils.data.DataLoader(
    range(len(train_set)), batch_size=args.batch_size, shuffle=True, collate_fn=batches_of(train_set)
)
test_set = datasets.MNIST(root, train=False, transform=transforms.ToTensor())
test_set = torch.utils.data.TensorDataset(
    *(part.to(device) for part in torch.utils.data.default_collate([*test_set]))
)
test_loader = torch.utils.data.DataLoader(
    range(len(test_set)), batch_size=args.batch_size, shuffle=True, collate_fn=batches_of(test_set)
)

model = nn.Linear(784, 20).to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)


def train(epoch):
    train_loss = 0
    for batch_idx, (data, _) in enumerate(train_loader):
        data = data.to(device)
        optimizer.zero_grad()
        loss = model(data.view(-1, 784)).square().sum()
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % 2 == 0:
            print(epoch, batch_idx * len(data), len(train_loader.dataset), 100. * batch_idx / len(train_loader))
    print(train_loss / len(train_loader.dataset))


def test(epoch):
    test_loss = 0
    with torch.no_grad():
        for i, (data, _) in enumerate(test_loader):
            data = data.to(device)
            test_loss += model(data.view(-1, 784)).square().sum().item()
            if i == 0:
                print(min(data.size(0), 8))
    print(test_loss / len(test_loader.dataset))


if __name__ == "__main__":
    for epoch in range(1, args.epochs + 1):
        train(epoch)
        test(epoch)
    print(torch.rand(1))
