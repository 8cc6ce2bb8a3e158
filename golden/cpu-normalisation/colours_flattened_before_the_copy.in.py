# golden: stay refused="`.view` on line"
"""Flat images have no channels any more, so that the mean of each channel would not find its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

img_transform = transforms.Compose([
    transforms.ToTensor(),
    transforms.Normalize([0.4, 0.5, 0.6], [0.5, 0.4, 0.3])
])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataloader = DataLoader(datasets.FakeData(6, (3, 6, 6), 3, transform=img_transform), batch_size=4)
    model = nn.Sequential(nn.Linear(108, 8), nn.ReLU(), nn.Linear(8, 108), nn.Tanh()).to(device)
    for data in dataloader:
        img, _ = data
        img = img.view(img.size(0), -1)
        img = img.to(device)
        loss = nn.functional.mse_loss(model(img), img)
        loss.backward()
        print(loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
