# golden: stay script refused="uses the scaler of the step in Python"
"""The scaler is told another number between epochs, which a replay would not see."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1, fused=True)
scaler = torch.amp.GradScaler(device.type)

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(round(loss.item(), 4))
    scaler.set_growth_interval(100)
