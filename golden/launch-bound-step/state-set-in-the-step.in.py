# golden: stay refused="is read before the step sets it anew" script
"""A step reads from an attribute what the step before has left there."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
loader = [(torch.randn(8, 4), torch.randn(8, 3)) for _ in range(4)]


class Trainer:
    def __init__(self):
        self.net = nn.Linear(7, 3).to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.state = torch.zeros(8, 3, device=device)

    def run(self):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            out = self.net(torch.cat([x, self.state], dim=1))
            self.state = out.detach()
            loss = F.mse_loss(out, y)
            loss.backward()
            self.optimizer.step()
        print(round(loss.item(), 4))


Trainer().run()
