# golden: stay script refused="changes behind the wrapper"
"""The body is trained from the second epoch on; the wrapper averages what is trained when it is made."""
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
    samples = TensorDataset(torch.randn(24, 6), torch.randint(3, (24,)))
    loader = DataLoader(samples, batch_size=8, drop_last=True)
    model = Net().to(device)
    for p in model.body.parameters():
        p.requires_grad = False
    model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        if epoch == 1:
            for p in model.parameters():
                p.requires_grad = True
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
