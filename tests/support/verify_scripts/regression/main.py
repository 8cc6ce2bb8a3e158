import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

from utils import AverageMeter, save_checkpoint, set_seed

parser = argparse.ArgumentParser(description='Several measurements of a sample from its table row')
parser.add_argument('--epochs', default=8, type=int, metavar='N', help='number of total epochs to run')
parser.add_argument('-b', '--batch-size', default=16, type=int, metavar='N')
parser.add_argument('--lr', '--learning-rate', default=0.01, type=float, metavar='LR')
parser.add_argument('--wd', '--weight-decay', default=1e-4, type=float, metavar='W')
parser.add_argument('-p', '--print-freq', default=5, type=int, metavar='N')
parser.add_argument('-j', '--workers', default=0, type=int, metavar='N')
parser.add_argument('--seed', default=42, type=int)


class TableDataset(Dataset):
    """Rows of numbers; a measurement that was not taken is NaN."""

    def __init__(self, rows, features=10, measurements=3):
        self.features = np.random.randn(rows, features).astype(np.float32)
        weights = np.random.randn(features, measurements).astype(np.float32)
        self.targets = np.tanh(self.features @ weights)
        self.targets[np.random.rand(rows, measurements) < 0.2] = np.nan

    def __len__(self):
        return len(self.features)

    def __getitem__(self, idx):
        sample = torch.from_numpy(self.features[idx]) + 0.05 * torch.randn(self.features.shape[1])
        return {'x': sample, 'y': torch.from_numpy(self.targets[idx])}


class MLP(nn.Module):
    def __init__(self, features=10, hidden=24, measurements=3):
        super(MLP, self).__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, measurements),
        )

    def forward(self, x):
        return self.net(x)


def masked_mse(pred, target):
    present = ~torch.isnan(target)
    return F.mse_loss(pred[present], target[present])


def train(train_loader, model, criterion, optimizer, epoch, device, args):
    losses = AverageMeter()
    model.train()

    for i, batch in enumerate(train_loader):
        x = batch['x'].to(device)
        y = batch['y'].to(device)

        output = model(x)
        loss = criterion(output, y)
        losses.update(loss.item(), x.size(0))

        # compute gradient and do SGD step
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()

        if i % args.print_freq == 0:
            print('Epoch: [{0}][{1}/{2}]\tLoss {loss.val:.4f} ({loss.avg:.4f})'.format(
                epoch, i, len(train_loader), loss=losses))
    return losses.avg


def validate(val_loader, model, criterion, device):
    losses = AverageMeter()
    model.eval()

    with torch.no_grad():
        for batch in val_loader:
            x = batch['x'].to(device)
            y = batch['y'].to(device)
            loss = criterion(model(x), y)
            losses.update(loss.item(), x.size(0))
    print(' * Loss {loss.avg:.4f}'.format(loss=losses))
    return losses.avg


def main():
    args = parser.parse_args()
    set_seed(args.seed)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')

    train_loader = DataLoader(TableDataset(88), batch_size=args.batch_size, shuffle=True,
                              num_workers=args.workers)
    val_loader = DataLoader(TableDataset(32), batch_size=args.batch_size, shuffle=False,
                            num_workers=args.workers)

    model = MLP().to(device)
    criterion = masked_mse
    optimizer = torch.optim.Adam(model.parameters(), args.lr, weight_decay=args.wd)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)

    best_loss = float('inf')
    for epoch in range(args.epochs):
        train(train_loader, model, criterion, optimizer, epoch, device, args)
        val_loss = validate(val_loader, model, criterion, device)
        scheduler.step()

        if val_loss < best_loss:
            best_loss = val_loss
            save_checkpoint({
                'epoch': epoch + 1,
                'state_dict': model.state_dict(),
                'optimizer': optimizer.state_dict(),
            })


if __name__ == '__main__':
    main()
