# golden: stay script refused="`step` runs one step, and what it trains is made elsewhere"
"""A trainer's method makes one step of what the trainer holds, and the loop calls it."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]


class Trainer:
    def __init__(self, model):
        self.model = model.to(device)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def fit(self):
        for x, y in loader:
            loss = self.step(x.to(device), y.to(device))
        print(round(loss.item(), 3))


if __name__ == "__main__":
    Trainer(nn.Linear(4, 3)).fit()
