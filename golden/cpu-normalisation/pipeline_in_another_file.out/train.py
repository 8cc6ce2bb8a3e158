# golden: change opt-in script
"""The pipeline stands in one file, the loops in the script that imports it: the module is defined beside the pipeline."""
import torch
from torch import nn
from torch.nn import functional as F

from images import MEAN, STD, NormalizeOnDevice, loaders


def train_one_epoch(model, loader, optimizer, device):
    normalize = NormalizeOnDevice(MEAN, STD).to(device)
    for images, labels in loader:
        images = normalize(images.to(device))
        labels = labels.to(device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, loader, device):
    total = 0.0
    normalize = NormalizeOnDevice(MEAN, STD).to(device)
    for images, labels in loader:
        images, labels = normalize(images.to(device)), labels.to(device)
        total += F.cross_entropy(model(images), labels).item()
    return f"{total:.6f}"


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, val = loaders(4)
    for epoch in range(2):
        train_one_epoch(model, train, optimizer, device)
        print(epoch, evaluate(model, val, device))


if __name__ == "__main__":
    main()
