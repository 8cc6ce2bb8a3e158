# golden: stay refused
"""The data set blends two normalised images before it returns them."""
import random

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


class Blended(Dataset):
    def __len__(self):
        return 4

    def picture(self, index):
        return transform(Image.fromarray(np.full((4, 4, 3), 60 * index, np.uint8)))

    def __getitem__(self, index):
        weight = random.random()
        return weight * self.picture(index) + (1 - weight) * self.picture(random.randrange(4))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 1)).to(device)
    for x in DataLoader(Blended(), batch_size=2):
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
