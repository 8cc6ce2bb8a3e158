# golden: change numerics=rounding
"""Another function makes the optimizer, and the step updates nothing by itself."""
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


def batches():
    torch.manual_seed(0)
    return [(torch.randn(size, 3), torch.randint(4, (size,))) for size in (6, 6, 6)]


def make_optimizer(net, lr):
    decayed = [p for name, p in net.named_parameters() if name.endswith("weight")]
    others = [p for name, p in net.named_parameters() if not name.endswith("weight")]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others}], lr=lr)


def fit():
    model = Net()
    model = model.to(device)
    model.compile()
    optimizer = make_optimizer(model, lr=0.01)
    for x, y in batches():
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def probe():
    torch.manual_seed(1)
    return fit()
