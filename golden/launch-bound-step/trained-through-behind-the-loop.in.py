# golden: stay refused="may be trained through" script
"""A generator is trained through the pictures that the last step of its critic has made."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator, critic = nn.Linear(2, 4).to(device), nn.Linear(4, 1).to(device)
optimizer_G = optim.SGD(generator.parameters(), lr=0.01)
optimizer_D = optim.SGD(critic.parameters(), lr=0.01)
for epoch in range(2):
    for _ in range(3):
        optimizer_D.zero_grad()
        fake = generator(torch.randn(8, 2, device=device))
        loss_D = critic(fake).mean()
        loss_D.backward(retain_graph=True)
        optimizer_D.step()
    optimizer_G.zero_grad()
    loss_G = -fake.mean()
    loss_G.backward()
    optimizer_G.step()
    print(round(loss_G.item(), 4))
