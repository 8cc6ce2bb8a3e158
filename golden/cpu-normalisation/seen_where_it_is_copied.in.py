# golden: stay refused="line 18 copies the images only under the `if` on line 17: otherwise they stay on the CPU"
"""Between the copy and the end of its `if`, somebody looks at the images: they would be bytes there."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])
use_cuda = torch.cuda.is_available()


def main():
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    if use_cuda:
        model.cuda()
    for x, y in DataLoader(datasets.FakeData(6, (1, 6, 6), 3, transform=transform), batch_size=2):
        if use_cuda:
            x, y = x.cuda(), y.cuda()
            print(x.mean().item())
        nn.functional.cross_entropy(model(x), y).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
