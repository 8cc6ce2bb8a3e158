# golden: change opt-in
"""Two pipelines, two loops: augmentations of pictures come first and stay where they are, both loops normalise."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class NormalizeOnDevice(nn.Module):
    """Normalizes a batch of uint8 images on the device."""

    def __init__(self, mean, std):
        super().__init__()
        # Dividing by the number 255 would round differently on CUDA than ToTensor does.
        self.register_buffer("scale", torch.tensor(255.0), persistent=False)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images):
        return images.float().div_(self.scale).sub_(self.mean).div_(self.std)


MEAN = [0.4914, 0.4822, 0.4465]
STD = [0.2470, 0.2435, 0.2616]

train_transform = transforms.Compose([
    transforms.RandomCrop(8, padding=1),
    transforms.RandomHorizontalFlip(),
    transforms.PILToTensor(),
])
test_transform = transforms.Compose([transforms.PILToTensor()])


def train(model, loader, optimizer, device):
    normalize = NormalizeOnDevice(MEAN, STD).to(device)
    for inputs, targets in loader:
        inputs, targets = normalize(inputs.to(device)), targets.to(device)
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test(model, loader, device):
    with torch.no_grad():
        normalize = NormalizeOnDevice(MEAN, STD).to(device)
        return [model(normalize(inputs.to(device))).argmax(1).cpu() for inputs, _ in loader]


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(datasets.FakeData(8, (3, 8, 8), 4, transform=train_transform), batch_size=4)
    test_loader = DataLoader(datasets.FakeData(6, (3, 8, 8), 4, transform=test_transform), batch_size=3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, train_loader, optimizer, device)
    return model, test(model, test_loader, device)


def probe():
    return main()


if __name__ == "__main__":
    main()
