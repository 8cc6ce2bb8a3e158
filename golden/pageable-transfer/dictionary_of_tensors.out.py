# golden: change
"""Batches are dictionaries, moved by a comprehension."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"input_ids": torch.arange(4) + index, "labels": torch.tensor(index % 2)}


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Tokens(), batch_size=4, num_workers=1, pin_memory=True)
    model = nn.Sequential(nn.Embedding(12, 3), nn.Flatten(), nn.Linear(12, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        loss = nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
