# golden: change script numerics=bitwise
"""Whether there is a scaler is an option, and a function that is given none trains without one."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim


def train_one_epoch(model, optimizer, loader, device, scaler=None):
    model.train()
    for image, target in loader:
        image, target = image.to(device), target.to(device)
        with torch.autocast(device.type, enabled=scaler is not None):
            output = model(image)
            loss = F.cross_entropy(output, target)

        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        print(loss.item())


def main(args):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 8, 5)]
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler(device.type) if args.amp else None
    for epoch in range(2):
        train_one_epoch(model, optimizer, loader, device, scaler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    main(parser.parse_args())
