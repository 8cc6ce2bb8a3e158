# golden: change
"""The transfer is as it should be; a comment and the style of the list stay."""
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
    normalize_images = NormalizeOnDevice([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).to(device)
    train_dataset = datasets.FakeData(
        8, (3, 8, 8), 3,
        transform=transforms.Compose([
            transforms.RandomResizedCrop(6),  # on the picture
            transforms.PILToTensor(),
        ]))
    train_loader = DataLoader(train_dataset, batch_size=4, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (images, target) in enumerate(train_loader):
        # move data to the same device as model
        images = normalize_images(images.to(device, non_blocking=True))
        target = target.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
