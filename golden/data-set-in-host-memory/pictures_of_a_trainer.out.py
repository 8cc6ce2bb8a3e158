# golden: change unsafe numerics=bitwise
"""A class makes its data set and its loaders; batches are flattened before they are moved."""
import struct
import tempfile
from pathlib import Path

import torch
import torchvision
import torchvision.transforms as transforms
from torch import nn


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


class Trainer:
    def __init__(self):
        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
        self.train_set = torchvision.datasets.KMNIST(root=written("KMNIST"),
                                                     train=True,
                                                     transform=transforms.ToTensor())
        self.train_set = torch.utils.data.TensorDataset(
            *(part.to(self.device) for part in torch.utils.data.default_collate([*self.train_set]))
        )
        self.loader = torch.utils.data.DataLoader(
            dataset=range(len(self.train_set)),
            batch_size=8,
            shuffle=True,
            collate_fn=batches_of(self.train_set),
        )
        self.model = nn.Linear(784, 10).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def train(self):
        for i, (images, labels) in enumerate(self.loader):
            images = images.reshape(-1, 28*28).to(self.device)
            labels = labels.to(self.device)
            loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(loss.item(), len(self.train_set))


def probe():
    torch.manual_seed(0)
    trainer = Trainer()
    for epoch in range(2):
        trainer.train()
    return trainer.model.weight, torch.rand(1)
