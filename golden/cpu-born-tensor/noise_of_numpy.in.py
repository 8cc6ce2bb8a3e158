# golden: change opt-in numerics=sampling
"""The noise and the labels of a GAN, drawn by NumPy in every step."""
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if cuda else torch.LongTensor


def train(generator, embed, imgs, device):
    batch_size = imgs.shape[0]

    # Sample noise as generator input
    z = Variable(Tensor(np.random.normal(0, 1, (batch_size, 3))))
    gen_labels = Variable(LongTensor(np.random.randint(0, 5, batch_size)))
    code = torch.from_numpy(
        np.random.uniform(-1, 1, (batch_size, 3))
    ).float().to(device)
    loss = generator(z * embed(gen_labels) + code).mean()
    loss.backward()
    return z, gen_labels, code


def cases(make):
    yield nn.Linear(3, 2).to(make.device), nn.Embedding(5, 3).to(make.device), make.tensor((4, 3)), make.device


def probe(generator, embed, imgs, device):
    return train(generator, embed, imgs, device)
