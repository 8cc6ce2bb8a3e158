# golden: stay script refused="its own numbers"
"""Each process would split the samples otherwise."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.head = nn.Linear(12, 3)

    def encode(self, x):
        return torch.relu(self.body(x))

    def forward(self, x):
        return self.head(self.encode(x))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    samples = TensorDataset(torch.ones(24, 6), torch.ones(24).long())
    samples, rest = torch.utils.data.random_split(samples, [16, 8])
    print(len(rest))
    loader = DataLoader(samples, batch_size=8, drop_last=True)
    model = nn.DataParallel(Net().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, len(loader))


if __name__ == "__main__":
    main()
