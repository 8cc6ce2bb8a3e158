# golden: change
"""The images are moved in the argument of the model, in training and in evaluation."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import FakeData


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


def get_loader(size, offset, batch_size=4):
    transform = transforms.Compose([
        transforms.CenterCrop(6),
        transforms.PILToTensor(),
    ])
    dataset = FakeData(size, (3, 8, 8), 3, transform=transform, random_offset=offset)
    return DataLoader(dataset, batch_size=batch_size)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    normalize = NormalizeOnDevice((0.5,) * 3, (0.25,) * 3).to(device)
    train_loader = get_loader(8, 0)
    val_loader = get_loader(4, 100)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(normalize(x.to(device))), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = [model(normalize(x.to(device))) for x, y in val_loader]
    return model, scores


def probe():
    return main()


if __name__ == "__main__":
    main()
