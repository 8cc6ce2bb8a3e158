# golden: change
"""torchvision.transforms.v2 multiplies bytes by the rounded reciprocal of 255; so does the device then."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import v2


class NormalizeOnDevice(nn.Module):
    """Normalizes a batch of uint8 images on the device."""

    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images):
        return images.float().mul_(1 / 255).sub_(self.mean).div_(self.std)


train_transform = v2.Compose([
    v2.ToImage(),
    v2.RandomHorizontalFlip(p=0.5),
])


def train_one_epoch(model, loader, optimizer, device):
    normalize = NormalizeOnDevice([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).to(device)
    for step, (images, labels) in enumerate(loader):
        images, labels = normalize(images.to(device, non_blocking=True)), labels.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = datasets.FakeData(8, (3, 8, 8), 4, transform=train_transform)
    loader = DataLoader(dataset, batch_size=4, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train_one_epoch(model, loader, optimizer, device)
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
