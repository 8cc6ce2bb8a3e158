from itertools import cycle

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
labelled = TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,)))
unlabelled = TensorDataset(torch.randn(128, 6))
held_out = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))

labelled_loader = DataLoader(labelled, batch_size=8, shuffle=True, drop_last=True)
unlabelled_loader = DataLoader(unlabelled, batch_size=16, shuffle=True)
test_loader = DataLoader(held_out, batch_size=12)

features = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
classifier = nn.Linear(16, 3)
decoder = nn.Linear(16, 6)
optimizer = torch.optim.SGD([
    {'params': [*features.parameters(), *classifier.parameters()], 'lr': 0.1},
    {'params': decoder.parameters(), 'lr': 0.01},
], lr=0.1, momentum=0.9)

for epoch in range(6):
    for (x, y), (u,) in zip(cycle(labelled_loader), unlabelled_loader):
        supervised = F.cross_entropy(classifier(features(x)), y)
        reconstruction = F.mse_loss(decoder(features(u)), u)
        optimizer.zero_grad()
        supervised.backward()
        reconstruction.backward()
        optimizer.step()

    with torch.no_grad():
        right = sum((classifier(features(x)).argmax(1) == y).sum().item() for x, y in test_loader)
    print(f'{epoch}: {right / len(held_out):.3f}')
