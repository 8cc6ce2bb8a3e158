# golden: stay refused="`kl` is not there where `if args.kl` does not bind it" script
"""What is shown behind the step is computed under an option only."""
import argparse

import torch
from torch import nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--kl", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]
net = nn.Linear(4, 3).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    out = net(x)
    loss = loss_function(out, y)
    if args.kl:
        kl = out.square().mean()
        loss = loss + kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
    if args.kl:
        print(kl.item())
