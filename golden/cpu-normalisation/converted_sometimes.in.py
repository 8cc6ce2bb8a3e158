# golden: stay refused="is not known to have 8 bits per channel"
"""A mode that is only printed is not made sure of: a picture of one bit comes by as it is."""
import io

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])


def stored(shade):
    file = io.BytesIO()
    Image.fromarray(np.full((6, 6), shade, dtype=np.uint8)).convert("1").save(file, "PNG")
    return file


class Scans(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        image = Image.open(stored(80 * index))
        if image.mode != "RGB":
            print("not RGB:", index)
            if image.mode == "P":
                image = image.convert("RGB")
        return transform(image), index % 3


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).to(device)
    for x, y in DataLoader(Scans(), batch_size=2):
        nn.functional.cross_entropy(model(x.to(device).float()), y.to(device)).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
