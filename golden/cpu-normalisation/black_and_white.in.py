# golden: stay refused
"""Pictures of one bit: ToTensor makes them 0 and 1, as bytes they are 0 and 1 already."""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])


class Scans(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return transform(Image.fromarray(np.full((4, 4), 80 * index, np.uint8)).convert("1"))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).to(device)
    for x in DataLoader(Scans(), batch_size=2):
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
