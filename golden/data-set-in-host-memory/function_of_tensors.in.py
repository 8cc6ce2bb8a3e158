# golden: change script
"""A function is given the tensors; the device is a string at the top; labels are cast on their way."""
import torch
import torch.utils.data as data
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def fit(net, inputs, targets, epochs=2):
    train_data = data.TensorDataset(inputs, targets)
    batches = data.DataLoader(train_data, batch_size=8, shuffle=True, num_workers=0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in batches:
            x, y = x.to(DEVICE), y.float().to(DEVICE)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


torch.manual_seed(0)
fit(nn.Linear(3, 1).to(DEVICE), torch.randn(20, 3), torch.randint(2, (20, 1)))
print(torch.rand(2).tolist())
