# golden: change
"""A helper moves whatever a batch consists of, part by part."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        x = torch.arange(3.0) + index
        return {"x": x, "more": [x.sum(), index], "name": str(index)}


def move_to(batch, device):
    if torch.is_tensor(batch):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: move_to(value, device) for key, value in batch.items()}
    if isinstance(batch, list):
        return [move_to(value, device) for value in batch]
    return batch


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Pairs(), batch_size=4, num_workers=2, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for batch in loader:
        batch = move_to(batch, device)
        loss = (model(batch["x"]).squeeze(1) - batch["more"][0] * batch["more"][1]).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
