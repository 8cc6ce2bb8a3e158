# golden: stay refused="`x` is changed in the step and read behind it" script
"""The first layer of the model works in place, on the batch."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
model = nn.Sequential(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 8)), nn.Linear(8, 3)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in [(batch.clone(), target) for batch, target in loader]:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item(), x.sum().item())
