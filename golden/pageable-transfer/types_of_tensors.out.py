# golden: change
"""A type of tensors says where the batch goes, as in many GANs."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.autograd import Variable

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if cuda else torch.LongTensor


def main():
    dataloader = DataLoader(TensorDataset(torch.randn(8, 3), torch.arange(8) % 2), batch_size=4,
                            pin_memory=True)
    model = nn.Linear(3, 2).type(Tensor)
    for i, (imgs, labels) in enumerate(dataloader):
        real_imgs = Variable(imgs.type(Tensor, non_blocking=True))
        labels = Variable(labels.type(LongTensor, non_blocking=True))
        loss = nn.functional.cross_entropy(model(real_imgs), labels)
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
