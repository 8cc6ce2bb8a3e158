# golden: stay refused="may set requires_grad on the images before they are copied, which uint8 images do not allow"
"""Saliency: the images ask for a gradient before they are copied, which only floats can have."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def probe():
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
    loader = DataLoader(datasets.FakeData(4, (3, 4, 4), 3, transform=transform), batch_size=2)
    model = nn.Linear(48, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saliency = []
    for images, labels in loader:
        images = Variable(images, requires_grad=True)
        scores = model(images.to(device).flatten(1))
        optimizer.zero_grad()
        F.cross_entropy(scores, labels.to(device)).backward()
        optimizer.step()
        saliency.append(images.grad.abs().sum())
    return torch.stack(saliency)
