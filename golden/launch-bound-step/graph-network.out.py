# golden: change script numerics=rounding
"""A full-batch step in a function of its own, which also sets the model's mode and reports; two optimizers to choose."""
import time

import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
use_adam = torch.initial_seed() == 0
features, labels = torch.randn(12, 4), torch.randint(3, (12,))
idx_train, idx_val = torch.arange(8), torch.arange(8, 12)

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
if use_adam:
    optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4, fused=True, capturable=True)
else:
    optimizer = optim.SGD(model.parameters(), lr=0.1)

if torch.cuda.is_available():
    model.cuda()
    features, labels = features.cuda(), labels.cuda()
    idx_train, idx_val = idx_train.cuda(), idx_val.cuda()


def accuracy(output, labels):
    correct = output.max(1)[1].eq(labels).double().sum()
    return correct / len(labels)


def train_step():
    optimizer.zero_grad()
    output = model(features)
    loss_train = F.cross_entropy(output[idx_train], labels[idx_train])
    acc_train = accuracy(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    return loss_train, acc_train


train_step = GraphedStep(train_step, [optimizer])


def train(epoch):
    t = time.time()
    model.train()
    loss_train, acc_train = train_step()

    model.eval()
    output = model(features)
    acc_val = accuracy(output[idx_val], labels[idx_val])
    took = time.time() - t
    print(epoch, round(loss_train.item(), 3), round(acc_train.item(), 3), round(acc_val.item(), 3), took < 60)


for epoch in range(6):
    train(epoch)
