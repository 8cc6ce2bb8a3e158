# golden: change opt-in script
"""What stands above the data set cannot move under a guard, and a worker that is spawned would say it again."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

print("torch", torch.__version__.split(".")[0])


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt()


torch.manual_seed(0)
model = nn.Linear(3, 1)
for x in DataLoader(Numbers(), batch_size=2, num_workers=min(8, os.cpu_count() or 1), multiprocessing_context="fork"):
    loss = model(x).sum()
    loss.backward()
    print(loss.item())
