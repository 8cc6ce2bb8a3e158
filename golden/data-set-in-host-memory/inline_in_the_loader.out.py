# golden: change script
"""The data set has no name of its own, the loader's class is written with its module, the last batch is dropped."""
import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
x_train, y_train = torch.randn(20, 3), torch.randn(20, 1)
net = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x_train.to(device), y_train.to(device)),
    sampler=torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(x_train), 8, drop_last=True),
    batch_size=None,
)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x.float().to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        print(loss.item())
print(torch.rand(2).tolist())
