# golden: stay script refused="imports nothing from the file with the transforms"
"""The pipeline stands in one file, the loops in another, and only the script knows both."""
import torch
from torch import nn

from engine import evaluate, train_one_epoch
from images import loaders


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, val = loaders(4)
    for epoch in range(2):
        train_one_epoch(model, train, optimizer, device)
        print(epoch, evaluate(model, val, device))


if __name__ == "__main__":
    main()
