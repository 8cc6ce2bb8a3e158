import argparse

import torch
import torch.nn.functional as F
from torch import nn

def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('data', help='file of numbers, one row per line')
    parser.add_argument('--width', type=int, required=True)
    parser.add_argument('--optimizer', choices=['sgd', 'adam'], required=True)
    parser.add_argument('--betas', nargs=2, type=float, default=(0.9, 0.999))
    parser.add_argument('--name', default='run')
    return parser.parse_args()


if __name__ == '__main__':
    args = get_args()
    with open(args.data) as file:
        table = torch.tensor([[float(number) for number in line.split(',')] for line in file])
    source, target = table[:, :-1], table[:, -1:]

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(source.size(1), args.width), nn.ReLU(), nn.Linear(args.width, 1))
    if args.optimizer == 'adam':
        optimizer = torch.optim.Adam(model.parameters(), betas=tuple(args.betas))
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(50):
        rows = torch.randperm(len(source))[:8]
        loss = F.l1_loss(model(source[rows]), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), args.name + '.pt')
