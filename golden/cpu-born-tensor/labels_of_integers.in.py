# golden: change
"""Zeros that are cast to integers before they are moved: the factory makes them in that type."""
import torch
from torch import nn


def main():
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to(device)
    for x in torch.randn(2, 6, 4).to(device):
        fakes = torch.zeros(x.size(0)).long().to(device)
        seen = torch.ones(2, 3).bool().view(-1).to(device)
        loss = nn.functional.cross_entropy(model(x)[seen], fakes)
        loss.backward()
    return model, fakes


def probe():
    return main()


if __name__ == '__main__':
    main()
