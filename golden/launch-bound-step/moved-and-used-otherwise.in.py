# golden: stay refused="`images.to(device)` copies from the host" script
"""The mean of the images is computed on the host as well, where it may come out otherwise than on the device."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]
net = nn.Linear(4, 3).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for images, labels in loader:
    optimizer.zero_grad()
    loss = loss_function(net(images.to(device)), labels.to(device)) * (1 + images.mean())
    loss.backward()
    optimizer.step()
    print(loss.item())
