from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import Compose, Normalize, ToTensor

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.1)


def loaders(batch_size):
    transform = Compose([ToTensor(), Normalize(MEAN, STD)])
    train = FakeData(16, (3, 8, 8), 4, transform=transform)
    val = FakeData(8, (3, 8, 8), 4, transform=transform, random_offset=100)
    return DataLoader(train, batch_size=batch_size), DataLoader(val, batch_size=batch_size)
