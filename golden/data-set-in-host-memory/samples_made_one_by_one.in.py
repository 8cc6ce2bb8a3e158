# golden: stay refused="is no TensorDataset"
"""A data set of its own kind, which makes its samples."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 37

    def __getitem__(self, index):
        return torch.randn(6), torch.tensor(index % 3)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = Noisy()
    loader = DataLoader(train_set, batch_size=8, shuffle=True)
    model = nn.Linear(6, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return model.weight, torch.stack(losses), torch.rand(1)


def probe():
    return main()
