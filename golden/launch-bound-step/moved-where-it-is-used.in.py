# golden: change script numerics=bitwise
"""The step moves its batch to the device where it uses it; the call of the step does so instead."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)

for epoch in range(3):
    net.train()
    running_loss, count = 0.0, 0
    for step, data in enumerate(train_loader):
        images, labels = data
        optimizer.zero_grad()
        logits = net(images.to(device))
        count += images.shape[0]
        loss = loss_function(logits, labels.to(device))
        loss.backward()
        optimizer.step()

        # print statistics
        running_loss += loss.item()
    print(epoch, count, running_loss)
