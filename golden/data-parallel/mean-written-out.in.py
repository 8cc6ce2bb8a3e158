# golden: change script
"""A loss whose mean is taken by hand, with a factor; code under the guard."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


WEIGHT = 0.5

if __name__ == '__main__':
    torch.manual_seed(0)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    samples = TensorDataset(torch.randn(16, 6), torch.randn(16, 3))
    loader = DataLoader(samples, batch_size=4, shuffle=False, drop_last=True)
    model = nn.Linear(6, 3)
    model = nn.DataParallel(model).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        losses = []
        for batch in loader:
            x, y = batch
            out = model(x.to(device))
            loss = WEIGHT * ((out - y.to(device)) ** 2).mean() + F.l1_loss(out, y.to(device))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        print(epoch, sum(losses) / len(losses))
