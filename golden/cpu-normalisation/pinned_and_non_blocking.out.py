# golden: change
"""The transfer is as it should be; a comment and the style of the list stay."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = torch.tensor(255.0, device=device)
    image_mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(-1, 1, 1)
    image_std = torch.tensor([0.229, 0.224, 0.225], device=device).view(-1, 1, 1)
    train_dataset = datasets.FakeData(
        8, (3, 8, 8), 3,
        transform=transforms.Compose([
            transforms.RandomResizedCrop(6),  # on the picture
            transforms.PILToTensor(),
        ]))
    train_loader = DataLoader(train_dataset, batch_size=4, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (images, target) in enumerate(train_loader):
        # move data to the same device as model
        images = images.to(device, non_blocking=True)
        images = images.float().div_(scale).sub_(image_mean).div_(image_std)
        target = target.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
