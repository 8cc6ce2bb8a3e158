# golden: stay refused
"""ToTensor does not scale 16-bit pictures, so there is nothing to divide by 255."""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class ToFloat:
    def __call__(self, x):
        return x.float()


transform = transforms.Compose([transforms.ToTensor(), ToFloat(), transforms.Normalize((3000.0,), (900.0,))])


class Depth(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return transform(Image.fromarray(np.full((4, 4), 1000 * index + 7, dtype=np.uint16)))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).to(device)
    for x in DataLoader(Depth(), batch_size=2):
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
