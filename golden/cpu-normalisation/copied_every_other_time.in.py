# golden: stay refused="line 17 copies the images only under the `if` on line 16: otherwise they stay on the CPU"
"""Whether a batch is copied is decided for each anew, so that no place outside of the loop knows where it will be."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])


def main():
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    where = "cpu"
    for x, y in DataLoader(datasets.FakeData(6, (1, 6, 6), 3, transform=transform), batch_size=2):
        if where != "cpu":
            x, y = x.to(device), y.to(device)
        nn.functional.cross_entropy(model.to(x.device)(x), y).backward()
        where = "cpu" if where == "gpu" else "gpu"
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
