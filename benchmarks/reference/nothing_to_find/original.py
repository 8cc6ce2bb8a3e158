"""A training that is as fast as it gets: whatever a rule still finds in it has no effect on how long a step takes."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

WIDTH = 4096
device = torch.device("cuda")


class Net(nn.Module):
    """A convolution that is over at once, and layers that take all of the time."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4)
        layers = [nn.Linear(32, WIDTH)]
        for _ in range(6):
            layers += [nn.ReLU(), nn.Linear(WIDTH, WIDTH)]
        self.layers = nn.Sequential(*layers, nn.ReLU(), nn.Linear(WIDTH, 10))

    def forward(self, x):
        return self.layers(self.stem(x).flatten(1))


torch.manual_seed(0)
images, labels = torch.randn(65536, 3, 8, 8), torch.randint(10, (65536,))
train_set = TensorDataset(images.to(device), labels.to(device))
batches = BatchSampler(RandomSampler(train_set), batch_size=8192, drop_last=True)
train_loader = DataLoader(train_set, sampler=batches, batch_size=None)
model = Net().to(device)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for epoch in range(1000):
    for x, y in train_loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = compiled(x)
            loss = F.cross_entropy(output.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{epoch}: {loss.item():.4f}")
