# golden: change
"""Labels that are smaller than 64 bits: their cast would make them pageable again, so that it goes behind the copy."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    masks = torch.randint(0, 2, (8, 4), dtype=torch.uint8)
    loader = DataLoader(TensorDataset(torch.randn(8, 3, 4), masks), batch_size=4, pin_memory=True)
    model = nn.Conv1d(3, 2, 1).to(device)
    for data, target in loader:
        data, target = data.to(device, non_blocking=True).float(), target.to(device, non_blocking=True).long()
        loss = nn.functional.cross_entropy(model(data), target)
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
