# golden: stay script refused="changes data that the loader reads while it runs, which workers would not see"
"""What the loop finds hard comes once more: the list that the dataset was made of changes while the loader runs."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), self.numbers[index]).sqrt()


def main():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    numbers = [float(n) for n in range(6)]
    loader = DataLoader(Numbers(numbers), batch_size=2)
    for epoch in range(2):
        for x in loader:
            loss = model(x).sum()
            loss.backward()
            numbers[-1] = numbers[epoch] + 0.5
            print(loss.item())


if __name__ == "__main__":
    main()
