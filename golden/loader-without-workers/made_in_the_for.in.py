# golden: change
"""The loader is made in the `for` itself, with a batch sampler."""
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler


class Ramp(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return torch.arange(4.0).add(index).sqrt(), float(index)


def main():
    dataset = Ramp()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 4, drop_last=False)):
        loss = (model(x.to(device)).squeeze(1) - y.to(device)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
