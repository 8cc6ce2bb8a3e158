# golden: change script
"""The tail that moves under the guard holds comments, a multi-line string and a nested function."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BANNER = """\
training
  on the host
"""


class Pairs(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.tensor([index, index ** 2], dtype=torch.float32).sqrt()


torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 1).to(device)
torch.nn.init.constant_(model.weight, 0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = DataLoader(Pairs(), batch_size=2,
                    num_workers=min(8, os.cpu_count() or 1),
                    multiprocessing_context="fork")

print(BANNER)
for batch in loader:
    # one step

    loss = model(batch.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("""loss
  %r""" % loss.item())

print("done")
