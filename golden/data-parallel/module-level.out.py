# golden: change script
"""No function around the training; shuffled samples come in the sampler's order."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
local_rank = int(os.environ["LOCAL_RANK"])
if torch.cuda.is_available():
    torch.cuda.set_device(local_rank)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# Data
samples = TensorDataset(torch.randn(20, 6), torch.randint(3, (20,)))
if 8 % dist.get_world_size():
    raise ValueError("the batch size 8 has to be a multiple of the number of processes")
sampler = torch.utils.data.DistributedSampler(samples, shuffle=True)
loader = DataLoader(samples, batch_size=8 // dist.get_world_size(), sampler=sampler, num_workers=0, pin_memory=True)

# Model
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)).to(device)
model = nn.parallel.DistributedDataParallel(
    model, device_ids=[local_rank] if torch.cuda.is_available() else None
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(2):
    sampler.set_epoch(epoch)
    # One round over all samples
    for step, (x, y) in enumerate(loader):
        out = model(x.to(device))
        loss = criterion(out, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(epoch, step, len(loader), list(model.state_dict()))
dist.destroy_process_group()
