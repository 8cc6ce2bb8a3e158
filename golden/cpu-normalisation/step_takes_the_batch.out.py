# golden: change
"""A training script at module level whose step is handed the whole batch and moves it in one line."""
import torch
import torch.utils.data
import torchvision.transforms as T
from torchvision.datasets import FakeData

transform = T.Compose(
    [T.Resize(7),
     T.PILToTensor()])
train_set = FakeData(8, (3, 6, 6), 5, transform=transform)
train_loader = torch.utils.data.DataLoader(train_set, batch_size=4, shuffle=True)

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
scale = torch.tensor(255.0, device=device)
mean = torch.tensor((0.5, 0.5, 0.5), device=device).view(-1, 1, 1)
std = torch.tensor((0.5, 0.5, 0.5), device=device).view(-1, 1, 1)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(147, 5)).to(device)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)


def train(data):
    inputs, labels = data[0].to(device=device), data[1].to(device=device)
    inputs = inputs.float().div_(scale).sub_(mean).div_(std)
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for step, batch_data in enumerate(train_loader):
    train(batch_data)


def probe():
    return model
