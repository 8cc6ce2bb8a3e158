# golden: change
"""All parts of a batch are copied at once and get their names behind that: only the images are normalised."""
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


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    normalize = NormalizeOnDevice([0.5, 0.4, 0.6], [0.5, 0.6, 0.4]).to(device)
    transform = transforms.Compose([
        transforms.PILToTensor(),
    ])
    train_loader = DataLoader(datasets.FakeData(6, (3, 6, 6), 3, transform=transform), batch_size=2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    for step, batch in enumerate(train_loader):
        batch = tuple(t.to(device) for t in batch)
        x, y = batch
        x = normalize(x)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        print(step, loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
