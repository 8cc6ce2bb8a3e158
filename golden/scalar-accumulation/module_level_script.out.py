# golden: change
"""The whole training at module level, with the loss of an epoch rounded where it is printed."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(12, 3), torch.randn(12, 1)), batch_size=4, shuffle=True)
model = nn.Linear(3, 1).to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(3):
    epoch_loss = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += loss.detach()
    epoch_loss = float(epoch_loss)
    print("epoch", epoch, "loss", round(epoch_loss / len(loader), 4), epoch_loss)


def probe():
    return model
