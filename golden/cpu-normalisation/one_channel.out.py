# golden: change opt-in
"""Grey digits with one mean and one deviation, through a data set of torchvision; names imported one by one."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import Compose, PILToTensor


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
    normalize = NormalizeOnDevice((0.1307,), (0.3081,)).to(device)
    transform = Compose([PILToTensor()])
    dataset = FakeData(8, (1, 5, 5), 4, transform=transform)
    loader = DataLoader(dataset, batch_size=4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 4)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for batch_idx, (data, target) in enumerate(loader):
        data, target = normalize(data.to(device)), target.to(device)
        loss = nn.functional.cross_entropy(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(batch_idx, loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
