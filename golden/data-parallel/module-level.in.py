# golden: change script
"""No function around the training; shuffled samples come in the sampler's order."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# Data
samples = TensorDataset(torch.randn(20, 6), torch.randint(3, (20,)))
loader = DataLoader(samples, batch_size=8, shuffle=True, num_workers=0, pin_memory=True)

# Model
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)).to(device)
model = nn.DataParallel(model)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(2):
    # One round over all samples
    for step, (x, y) in enumerate(loader):
        out = model(x.to(device))
        loss = criterion(out, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, step, len(loader), list(model.state_dict()))
