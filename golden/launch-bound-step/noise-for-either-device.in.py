# golden: change script numerics=sampling
"""What a model does on machines without CUDA is never recorded."""
import torch
from torch import nn, optim

torch.manual_seed(0)
loader = [torch.randn(8, 4) for _ in range(6)]


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 4), nn.Linear(2, 4)

    def forward(self, x):
        mean, scale = self.encode(x).chunk(2, dim=1)
        if torch.cuda.is_available():
            noise = torch.cuda.FloatTensor(mean.size()).normal_()
        else:
            noise = torch.FloatTensor(mean.size()).normal_()
        return self.decode(mean + noise * scale.exp())


model = Autoencoder()
if torch.cuda.is_available():
    model = model.cuda()
optimizer = optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()

for epoch in range(2):
    for x in loader:
        if torch.cuda.is_available():
            x = x.cuda()
        optimizer.zero_grad()
        loss = criterion(model(x), x)
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
