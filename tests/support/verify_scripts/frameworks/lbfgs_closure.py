import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(64, 6, dtype=torch.float64)
targets = torch.tanh(inputs @ torch.randn(6, 2, dtype=torch.float64))
loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double()
criterion = nn.MSELoss()
optimizer = optim.LBFGS(model.parameters(), lr=0.8, max_iter=5, history_size=4)

for epoch in range(10):
    for source, target in loader:
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(source), target)
            loss.backward()
            return loss
        loss = optimizer.step(closure)
    print('epoch', epoch, 'loss', loss.item())
