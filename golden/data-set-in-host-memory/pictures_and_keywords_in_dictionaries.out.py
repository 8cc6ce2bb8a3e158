# golden: change unsafe numerics=bitwise
"""Dictionaries hold the keywords of the loaders, of which some are only given on the device."""
import struct
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
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


def train(model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(data), dim=1), target)
        loss.backward()
        optimizer.step()
        print(epoch, batch_idx * len(data), len(train_loader.dataset), loss.item())


def test(model, device, test_loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            pred = model(data).argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(correct / len(test_loader.dataset))


def main(shuffles):
    torch.manual_seed(0)
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    train_kwargs = {'batch_size': 8}
    test_kwargs = {'batch_size': 16}
    if use_cuda or shuffles:
        cuda_kwargs = {'num_workers': 1,
                       'pin_memory': use_cuda,
                       'shuffle': True}
        train_kwargs.update(cuda_kwargs)
        test_kwargs.update(cuda_kwargs)

    transform=transforms.Compose([
        transforms.ToTensor(),
        transforms.Normalize((0.1307,), (0.3081,))
        ])
    root = written()
    dataset1 = datasets.MNIST(root, train=True, download=True,
                       transform=transform)
    dataset1 = torch.utils.data.TensorDataset(
        *(part.to(device) for part in torch.utils.data.default_collate([*dataset1]))
    )
    dataset2 = datasets.MNIST(root, train=False,
                       transform=transform)
    dataset2 = torch.utils.data.TensorDataset(
        *(part.to(device) for part in torch.utils.data.default_collate([*dataset2]))
    )
    train_loader = torch.utils.data.DataLoader(
        range(len(dataset1)),
        batch_size=train_kwargs["batch_size"],
        shuffle=train_kwargs.get("shuffle", False),
        collate_fn=batches_of(dataset1),
    )
    test_loader = torch.utils.data.DataLoader(
        range(len(dataset2)),
        batch_size=test_kwargs["batch_size"],
        shuffle=test_kwargs.get("shuffle", False),
        collate_fn=batches_of(dataset2),
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for epoch in range(1, 3):
        train(model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
    return model[1].weight, torch.rand(1)


def probe():
    return main(False), main(True)
