# golden: stay refused
"""Images of several sizes are padded after they were normalised: the padding is the mean colour, not black."""
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


class Pictures(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return transform(Image.fromarray(np.full((4 + index, 5, 3), 50 * index, dtype=np.uint8)))


def collate(images):
    height = max(image.shape[1] for image in images)
    return torch.stack([F.pad(image, (0, 0, 0, height - image.shape[1])) for image in images])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Conv2d(3, 1, 3).to(device)
    for x in DataLoader(Pictures(), batch_size=2, collate_fn=collate):
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
