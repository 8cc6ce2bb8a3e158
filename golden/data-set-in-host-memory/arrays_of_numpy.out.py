# golden: change script
"""The tensors come from arrays."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

rng = np.random.default_rng(0)
torch.manual_seed(0)
X_train, y_train = rng.normal(size=(24, 5)).astype("float32"), rng.integers(0, 2, size=24)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

train = TensorDataset(torch.from_numpy(X_train).to(device), torch.from_numpy(y_train).to(device))
train_loader = DataLoader(train, sampler=BatchSampler(RandomSampler(train), 10, drop_last=False),
                          batch_size=None)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

for epoch in range(3):
    for X, y in train_loader:
        X = X.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(X), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
print(torch.rand(2).tolist())
