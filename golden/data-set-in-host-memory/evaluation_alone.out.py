# golden: change script
"""Only predictions are made; the samples keep their order."""
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset
from torch.utils.data import SequentialSampler


def predict(net, x, y):
    device = next(net.parameters()).device
    dataset = TensorDataset(x.to(device), y.to(device))
    loader = DataLoader(dataset, sampler=BatchSampler(SequentialSampler(dataset), 7, drop_last=False), batch_size=None)
    errors = []
    net.eval()
    with torch.no_grad():
        for features, targets in loader:
            errors.append((net(features.to(device)) - targets.to(device)).abs())
    return torch.cat(errors)


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = nn.Linear(3, 1).to(device)
print(predict(net, torch.randn(20, 3), torch.randn(20, 1)).flatten().tolist(), SequentialSampler.__name__)
