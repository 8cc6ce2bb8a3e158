# golden: change
"""An autoencoder moves the same batch twice, as its input and as its target: both are normalised."""
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


transform = transforms.Compose([transforms.PILToTensor()])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    normalize = NormalizeOnDevice((0.5,) * 3, (0.5,) * 3).to(device)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 192), nn.Unflatten(1, (3, 8, 8))).to(device)
    for x, _ in DataLoader(datasets.FakeData(4, (3, 8, 8), 3, transform=transform), batch_size=2):
        loss = nn.functional.mse_loss(model(normalize(x.to(device))), normalize(x.to(device)))
        loss.backward()
        print(loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
