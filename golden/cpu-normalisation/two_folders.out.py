# golden: change
"""Pipelines, data sets and loaders in dictionaries, as in the tutorial on transfer learning."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


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


data_transforms = {
    "train": transforms.Compose([
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
    ]),
    "val": transforms.Compose([
        transforms.PILToTensor(),
    ]),
}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train_model(model, dataloaders, dataset_sizes, optimizer):
    normalize = NormalizeOnDevice([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).to(device)
    for phase in ["train", "val"]:
        running_loss = 0.0
        for inputs, labels in dataloaders[phase]:
            inputs = normalize(inputs.to(device))
            labels = labels.to(device)
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(model(inputs), labels)
                if phase == "train":
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            running_loss += loss.item() * inputs.size(0)
        print(phase, running_loss / dataset_sizes[phase])


def main():
    image_datasets = {x: datasets.FakeData(8, (3, 8, 8), 4, data_transforms[x]) for x in ["train", "val"]}
    dataloaders = {x: DataLoader(image_datasets[x], batch_size=4, shuffle=True) for x in ["train", "val"]}
    dataset_sizes = {x: len(image_datasets[x]) for x in ["train", "val"]}
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train_model(model, dataloaders, dataset_sizes, optimizer)
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
