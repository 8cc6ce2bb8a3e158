# golden: change
"""A training script at module level whose step is handed the whole batch and moves it in one line."""
import torch
import torch.utils.data
import torchvision.transforms as T
from torchvision.datasets import FakeData


class NormalizeOnDevice(torch.nn.Module):
    """Normalizes a batch of uint8 images on the device."""

    def __init__(self, mean, std):
        super().__init__()
        # Dividing by the number 255 would round differently on CUDA than ToTensor does.
        self.register_buffer("scale", torch.tensor(255.0), persistent=False)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images):
        return images.float().div_(self.scale).sub_(self.mean).div_(self.std)


transform = T.Compose(
    [T.Resize(7),
     T.PILToTensor()])
train_set = FakeData(8, (3, 6, 6), 5, transform=transform)
train_loader = torch.utils.data.DataLoader(train_set, batch_size=4, shuffle=True)

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
normalize = NormalizeOnDevice((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)).to(device)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(147, 5)).to(device)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)


def train(data):
    inputs, labels = normalize(data[0].to(device=device)), data[1].to(device=device)
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for step, batch_data in enumerate(train_loader):
    train(batch_data)


def probe():
    return model
