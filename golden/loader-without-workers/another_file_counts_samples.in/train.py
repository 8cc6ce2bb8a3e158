# golden: stay script refused="counter.py"
"""What a sample does is told by a helper in another file, which counts its calls."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import counter


class Points(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        counter.count(index)
        return torch.full((3,), float(index))


def main():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for points in DataLoader(Points(), batch_size=4):
        loss = model(points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.5f}", len(counter.seen))


if __name__ == "__main__":
    main()
