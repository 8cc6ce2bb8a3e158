# golden: change script numerics=bitwise
"""The model is spread over all devices that there are; with more than one, the recorder leaves the step as it is."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(6)]
model = nn.DataParallel(nn.Linear(4, 1).to(device))
optimizer = optim.SGD(model.parameters(), lr=0.01)
for x in loader:
    x = x.to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
