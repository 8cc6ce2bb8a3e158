# golden: stay script refused="line 2 of noise.py modifies the batch"
"""A function of another file writes into the batch on the host while the copy may be under way."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from noise import disturb


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (points,) in loader:
        moved = points.to(device)
        disturb(points)
        loss = (model(moved) - points.sum(1, keepdim=True).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
