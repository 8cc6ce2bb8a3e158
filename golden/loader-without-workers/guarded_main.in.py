# golden: change
"""The plain case: a map-style data set that works for its samples, a loader in `main`, a guard."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        t = torch.arange(16) * (index + 1) / self.size
        return t.sin(), t.cos().mean()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Waves(240), batch_size=4, shuffle=True)
    model = nn.Linear(16, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = (model(x.to(device)).squeeze(1) - y.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item()!r}")
    return model


if __name__ == "__main__":
    main()


def probe():
    return main()
