# golden: stay refused
"""The same transform prepares a single picture for prediction, without any loader."""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


def predict(model, picture, device):
    return model(transform(picture).unsqueeze(0).to(device)).argmax()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(datasets.FakeData(4, (3, 8, 8), 3, transform=transform), batch_size=2):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    picture = Image.fromarray(np.full((8, 8, 3), 99, dtype=np.uint8))
    return model, predict(model, picture, device)


def probe():
    return main()


if __name__ == "__main__":
    main()
