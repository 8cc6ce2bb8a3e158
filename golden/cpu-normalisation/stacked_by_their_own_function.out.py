# golden: change
"""Pictures whose mode the dataset checks, stacked by a collate function of its own."""
import io

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


def stored(shade):
    file = io.BytesIO()
    Image.fromarray(np.full((6, 6, 3), shade, dtype=np.uint8)).save(file, "PNG")
    return file


class MyDataSet(Dataset):
    def __init__(self, images: list, classes: list, transform=None):
        self.images = images
        self.classes = classes
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, item):
        img = Image.open(self.images[item])
        if img.mode != 'RGB':
            raise ValueError("image: {} isn't RGB mode.".format(self.images[item]))
        label = self.classes[item]

        if self.transform is not None:
            img = self.transform(img)

        return img, label

    @staticmethod
    def collate_fn(batch):
        images, labels = tuple(zip(*batch))

        images = torch.stack(images, dim=0)
        labels = torch.as_tensor(labels)
        return images, labels


def main():
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    normalize = NormalizeOnDevice([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).to(device)
    data_transform = {
        "train": transforms.Compose([transforms.RandomHorizontalFlip(),
                                     transforms.PILToTensor()]),
        "val": transforms.Compose([transforms.CenterCrop(6),
                                   transforms.PILToTensor()])}
    train_dataset = MyDataSet([stored(shade) for shade in (0, 9, 99, 255)], [0, 1, 2, 0], data_transform["train"])
    val_dataset = MyDataSet([stored(shade) for shade in (7, 77)], [0, 1], transform=data_transform["val"])
    train_loader = DataLoader(train_dataset, batch_size=2, shuffle=True, collate_fn=train_dataset.collate_fn)
    val_loader = DataLoader(val_dataset, batch_size=2, collate_fn=val_dataset.collate_fn)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    for data in train_loader:
        images, labels = data
        pred = model(normalize(images.to(device)))
        nn.functional.cross_entropy(pred, labels.to(device)).backward()
    with torch.no_grad():
        for images, labels in val_loader:
            print(model(normalize(images.to(device))).sum().item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
