# golden: change unsafe numerics=bitwise
"""Types move the pictures and their labels; a flag above the data set decides where their tensors lie."""
import struct
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset, default_collate
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


def main():
    torch.manual_seed(0)
    cuda = True if torch.cuda.is_available() else False
    data_set = datasets.MNIST(written(), train=True, download=True, transform=transforms.ToTensor())
    data_set = TensorDataset(*(part.to("cuda" if cuda else "cpu") for part in default_collate([*data_set])))
    loader = DataLoader(range(len(data_set)), batch_size=8, shuffle=True, collate_fn=batches_of(data_set))
    FloatTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
    LongTensor = torch.LongTensor if not cuda else torch.cuda.LongTensor
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    if cuda:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(2):
        for i, (imgs, labels) in enumerate(loader):
            batch_size = imgs.shape[0]
            real_imgs = Variable(imgs.type(FloatTensor))
            labels = Variable(labels.type(LongTensor))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(real_imgs.data), labels) + FloatTensor(imgs.size(0), 1).fill_(1.0).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach() * batch_size)
    return model[1].weight, torch.stack(losses), torch.rand(1)


def probe():
    return main()
