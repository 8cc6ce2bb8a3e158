# golden: change
"""The most frequent pipeline: the last two steps move to the device, the rest stays."""
import numpy as np
import torch
import torchvision.transforms as T
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


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


class Pictures(Dataset):
    def __init__(self, transform):
        self.data = np.random.default_rng(0).integers(0, 256, (9, 6, 6, 3), dtype=np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.data[index])), index % 3


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    normalize = NormalizeOnDevice((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)).to(device)
    transform = T.Compose(
        [T.Resize(8),
         T.PILToTensor()])
    loader = DataLoader(Pictures(transform), batch_size=4, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for images, labels in loader:
            images = normalize(images.to(device))
            labels = labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
