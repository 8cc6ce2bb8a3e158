# golden: change unsafe
"""A literal 0, all keywords, several lines, a trailing comma and a comment that stays."""
import torch
from torch import nn
from torch.utils import data


class Squares(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)) ** 2 / 64


def collate(samples):
    return torch.stack(samples) + 1


def main(epochs=2):
    loader = data.DataLoader(
        dataset=Squares(),
        batch_size=3,
        shuffle=True,
        collate_fn=collate,
        num_workers=0,  # debugging
        drop_last=True,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x in loader:
            loss = model(x.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def probe():
    return main()


if __name__ == '__main__':
    main()
