# golden: stay refused="which the step reads, is changed in Python" script
"""What the step does is another matter in later epochs."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]


class Trainer:
    def __init__(self):
        self.is_warm = False
        self.net = nn.Linear(4, 3).to(device)
        self.optimizer = optim.SGD(self.net.parameters(), lr=0.1)
        self.loss = nn.CrossEntropyLoss()

    def fit(self):
        for epoch in range(3):
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                out = self.net(x)
                loss = self.loss(out, y)
                if self.is_warm:
                    loss = loss + out.square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                print(loss.item())
            self.is_warm = True


Trainer().fit()
