# golden: change
"""All parts of a batch are copied at once and get their names behind that: only the images are normalised."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = torch.tensor(255.0, device=device)
    image_mean = torch.tensor([0.5, 0.4, 0.6], device=device).view(-1, 1, 1)
    image_std = torch.tensor([0.5, 0.6, 0.4], device=device).view(-1, 1, 1)
    transform = transforms.Compose([
        transforms.PILToTensor(),
    ])
    train_loader = DataLoader(datasets.FakeData(6, (3, 6, 6), 3, transform=transform), batch_size=2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 3)).to(device)
    for step, batch in enumerate(train_loader):
        batch = tuple(t.to(device) for t in batch)
        x, y = batch
        x = x.float().div_(scale).sub_(image_mean).div_(image_std)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        print(step, loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
