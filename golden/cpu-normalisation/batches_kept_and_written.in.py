# golden: stay refused="writes into the copied images"
"""Batches are kept for all epochs; on the CPU the copy is the kept batch, which fades from epoch to epoch."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def probe():
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
    batches = list(DataLoader(datasets.FakeData(4, (3, 4, 4), 3, transform=transform), batch_size=2))
    model = nn.Linear(48, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for images, labels in batches:
            images, labels = images.to(device), labels.to(device)
            images.mul_(0.5)
            loss = F.cross_entropy(model(images.flatten(1)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)
