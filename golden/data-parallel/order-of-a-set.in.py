# golden: stay script refused="another order in each process"
"""Classes are numbered in the order of a set of strings, which each process has to itself."""
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
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    words = ["cat", "dog", "cow"] * 8
    index = {word: number for number, word in enumerate(set(words))}
    samples = TensorDataset(torch.randn(24, 6), torch.tensor([index[word] for word in words]))
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
        print(epoch, loss.item() < 9)


if __name__ == "__main__":
    main()
