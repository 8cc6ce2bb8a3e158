# golden: stay refused="normalises by hand"
"""Scaled and normalised in `__getitem__`, on float32 tensors, without torchvision: nothing is moved that is not a pipeline."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self):
        self.frames = np.random.default_rng(1).integers(0, 256, (8, 5, 5, 3), dtype=np.uint8)
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        image = torch.from_numpy(self.frames[index]).permute(2, 0, 1)
        image = image.float() / 255
        image = (image - self.mean) / self.std
        return image, index % 2


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Frames(), batch_size=4, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(75, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
