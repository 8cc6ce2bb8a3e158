# golden: change
"""Labels for the patches of a discriminator, made by NumPy in every step."""
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable

Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.output_shape = (1, 2, 2)
        self.model = nn.Conv2d(3, 1, 3, stride=2, padding=1)

    def forward(self, img):
        return self.model(img)


def train(D, imgs, device):
    criterion = nn.MSELoss()

    # Adversarial ground truths
    valid = Variable(Tensor(imgs.size(0), *D.output_shape).fill_(1.0), requires_grad=False)
    fake = torch.from_numpy(np.zeros((imgs.size(0), 1, 2, 2), dtype=np.float32)).to(device)
    shift = torch.zeros(imgs.size(0), 1, 2, 2, device=device)
    loss = criterion(D(imgs) + shift, valid) + criterion(D(imgs), fake)
    loss.backward()
    return loss.detach()


def cases(make):
    yield Discriminator().to(make.device), make.tensor((2, 3, 4, 4), torch.float32), make.device


def probe(D, imgs, device):
    return train(D, imgs, device)
