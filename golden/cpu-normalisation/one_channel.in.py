# golden: change opt-in
"""Grey digits with one mean and one deviation, through a data set of torchvision; names imported one by one."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import Compose, Normalize, ToTensor


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    transform = Compose([ToTensor(), Normalize((0.1307,), (0.3081,))])
    dataset = FakeData(8, (1, 5, 5), 4, transform=transform)
    loader = DataLoader(dataset, batch_size=4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 4)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        loss = nn.functional.cross_entropy(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(batch_idx, loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
