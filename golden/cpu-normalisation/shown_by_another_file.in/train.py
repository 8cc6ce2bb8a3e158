# golden: stay script refused="shown.py"
"""Another file looks at the normalised images on the host."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import Compose, Normalize, ToTensor

from shown import brightest


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    transform = Compose([ToTensor(), Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))])
    loader = DataLoader(FakeData(8, (3, 4, 4), 2, transform=transform), batch_size=4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2)).to(device)
    for images, labels in loader:
        print(brightest(images))
        loss = F.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
    print(f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
