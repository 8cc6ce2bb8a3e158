# golden: change
"""The step is a function that takes the whole batch; device, model and loader are of the module."""
import torch
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
train_set = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
train_loader = torch.utils.data.DataLoader(train_set, batch_size=4,
                                           shuffle=True, pin_memory=True)
model = torch.nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)


def train(data):
    inputs = data[0].to(device=device, non_blocking=True)
    labels = data[1].to(device=device, non_blocking=True)
    loss = (model(inputs) - labels).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for step, batch_data in enumerate(train_loader):
    train(batch_data)


def probe():
    return model
