# golden: change opt-in script
"""The loop stands in one file, the meter in another, and what it keeps is printed by a third."""
import torch
from torch import nn

from loop import train


def main():
    torch.manual_seed(0)
    model = nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(count, 5) for count in (4, 4, 3)]
    for epoch in range(2):
        losses = train(model, batches, optimizer)
        print(epoch, f"{losses.avg:.6f} {losses.val:.6f} {losses.count}")


if __name__ == "__main__":
    main()
