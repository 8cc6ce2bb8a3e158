# golden: change
"""Scaled and normalised in `__getitem__`, on float32 tensors, without torchvision."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self):
        self.frames = np.random.default_rng(1).integers(0, 256, (8, 5, 5, 3), dtype=np.uint8)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        image = torch.from_numpy(self.frames[index]).permute(2, 0, 1)
        return image, index % 2


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = torch.tensor(255.0, device=device)
    image_mean = torch.tensor((0.485, 0.456, 0.406), device=device).view(-1, 1, 1)
    image_std = torch.tensor((0.229, 0.224, 0.225), device=device).view(-1, 1, 1)
    loader = DataLoader(Frames(), batch_size=4, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(75, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        images = images.float().div_(scale).sub(image_mean).div(image_std)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
