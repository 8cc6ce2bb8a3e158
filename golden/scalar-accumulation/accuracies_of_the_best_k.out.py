# golden: change syncs=4 hot=train_one_epoch
"""The accuracies of PyTorch's ImageNet example: a function in sight gives a list of tensors with one element each."""
import torch
from torch import nn


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name = name
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    """Computes the accuracy over the k top predictions for the specified values of k"""
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)

        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))

        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / batch_size))
        return res


def train_one_epoch(model, loader, criterion, optimizer, device):
    top1 = AverageMeter("Acc@1", ":6.2f")
    top2 = AverageMeter("Acc@2", ":6.2f")
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = criterion(output, y)
        acc = accuracy(output, y, topk=(1, 2))
        top1.update(acc[0].detach().squeeze().clone(), x.size(0))
        acc1, acc2 = accuracy(output, y, topk=(1, 2))
        top2.update(acc2[0].detach().clone(), x.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print("\t".join([str(top1), str(top2)]))


def main():
    loader = [(torch.randn(4, 3), torch.randint(0, 4, (4,))) for _ in range(3)]
    model = nn.Linear(3, 4)
    train_one_epoch(model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1), "cpu")


def cases(make):
    loader = [(make.tensor((size, 3)), torch.arange(size, device=make.device) % 4) for size in (4, 4, 3)]
    yield nn.Linear(3, 4).to(make.device), loader, make.device


def probe(model, loader, device):
    train_one_epoch(model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1), device)


if __name__ == "__main__":
    main()
