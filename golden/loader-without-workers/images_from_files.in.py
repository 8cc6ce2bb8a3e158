# golden: change
"""Pictures are decoded and transformed: a subset with a sampler, the transform made of classes that can be pickled."""
import numpy as np
import torch
import torchvision.transforms as T
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler


class Pictures(Dataset):
    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, index):
        image = Image.fromarray((np.arange(300, dtype=np.uint16) * (index + 1) % 256).astype(np.uint8).reshape(10, 10, 3))
        if self.transform is not None:
            image = self.transform(image)
        return image, index % 3


def main():
    transform = T.Compose([T.Resize(8), T.CenterCrop(6), T.ToTensor()])
    dataset = Subset(Pictures(transform), list(range(10)))
    loader = DataLoader(dataset, batch_size=5, sampler=SubsetRandomSampler(range(10)))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
