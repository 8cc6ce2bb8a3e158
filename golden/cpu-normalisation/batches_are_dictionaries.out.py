# golden: change
"""The image is an entry of a sample; other entries are left alone."""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


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


preprocess = transforms.Compose([
    transforms.Resize((6, 6)),
    transforms.PILToTensor(),
])


class Captions(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        image = Image.fromarray(np.full((8, 8, 3), 20 * index, dtype=np.uint8))
        return {"image": preprocess(image), "weight": torch.tensor(index / 6)}


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    normalize = NormalizeOnDevice([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).to(device)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Captions(), batch_size=3):
        images = normalize(batch["image"].to(device))
        weights = batch["weight"].to(device)
        loss = (model(images).squeeze(1) * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
