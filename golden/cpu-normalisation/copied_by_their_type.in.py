# golden: stay refused="`.type` on line"
"""A GAN copies its images by the type of the device's tensors, which makes floats of them on the host first."""
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

cuda = torch.cuda.is_available()


def main():
    dataloader = DataLoader(
        datasets.FakeData(
            6,
            (1, 8, 8),
            3,
            transform=transforms.Compose(
                [transforms.Resize(6), transforms.ToTensor(), transforms.Normalize([0.5], [0.5])]
            ),
        ),
        batch_size=2,
        shuffle=True,
    )
    discriminator = nn.Sequential(nn.Flatten(), nn.Linear(36, 1), nn.Sigmoid())
    if cuda:
        discriminator.cuda()
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
    for imgs, _ in dataloader:
        valid = Variable(Tensor(imgs.size(0), 1).fill_(1.0), requires_grad=False)
        real_imgs = Variable(imgs.type(Tensor))
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy(discriminator(real_imgs), valid)
        loss.backward()
        optimizer.step()
        print(loss.item())
    return discriminator


def probe():
    return main()


if __name__ == "__main__":
    main()
