# golden: change
"""The most frequent pipeline: the last two steps move to the device, the rest stays."""
import numpy as np
import torch
import torchvision.transforms as T
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, transform):
        self.data = np.random.default_rng(0).integers(0, 256, (9, 6, 6, 3), dtype=np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.data[index])), index % 3


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = torch.tensor(255.0, device=device)
    mean = torch.tensor((0.485, 0.456, 0.406), device=device).view(-1, 1, 1)
    std = torch.tensor((0.229, 0.224, 0.225), device=device).view(-1, 1, 1)
    transform = T.Compose(
        [T.Resize(8),
         T.PILToTensor()])
    loader = DataLoader(Pictures(transform), batch_size=4, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for images, labels in loader:
            images = images.to(device)
            images = images.float().div_(scale).sub_(mean).div_(std)
            labels = labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
