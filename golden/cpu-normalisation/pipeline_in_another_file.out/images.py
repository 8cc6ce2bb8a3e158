import torch
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import Compose, PILToTensor


class NormalizeOnDevice(torch.nn.Module):
    """Normalizes a batch of uint8 images on the device."""

    def __init__(self, mean, std):
        super().__init__()
        # Dividing by the number 255 would round differently on CUDA than ToTensor does.
        self.register_buffer("scale", torch.tensor(255.0), persistent=False)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images):
        return images.float().div_(self.scale).sub_(self.mean).div_(self.std)


MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.1)


def loaders(batch_size):
    transform = Compose([PILToTensor()])
    train = FakeData(16, (3, 8, 8), 4, transform=transform)
    val = FakeData(8, (3, 8, 8), 4, transform=transform, random_offset=100)
    return DataLoader(train, batch_size=batch_size), DataLoader(val, batch_size=batch_size)
