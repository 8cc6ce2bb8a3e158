# golden: change opt-in
"""Real and fake have labels of ones and zeros, wrapped as of old."""
import torch
from torch import nn
from torch.autograd import Variable


def losses(scores_real, scores_fake, device):
    valid = Variable(torch.ones(scores_real.size(0), 1)).to(device)
    fake = Variable(torch.zeros(scores_fake.size(0), 1).to(device))
    criterion = nn.MSELoss()
    return criterion(scores_real, valid) + criterion(scores_fake, fake)


def cases(make):
    yield *(make.tensor((4, 1), torch.float32, requires_grad=True) for _ in range(2)), make.device


def probe(real, fake, device):
    return losses(real, fake, device)
