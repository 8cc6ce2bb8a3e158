"""Semantic segmentation with a masked loss that never makes the host wait for the GPU (as an expert would mend it)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim
import torch.utils.data
from torch import Tensor
from torch.utils.data import Dataset


class Net(nn.Module):
    def __init__(self, num_hidden=10, num_classes=10):
        super().__init__()
        self.conv_in = nn.Conv2d(3, 10, 3, padding='same')
        hidden = []
        for i in range(num_hidden):
            hidden.append(nn.Conv2d(10, 10, 3, padding='same'))
            hidden.append(nn.ReLU())

        self.hidden = nn.Sequential(*hidden)
        self.conv_out = nn.Conv2d(10, num_classes, 3, padding='same')

    def forward(self, x):
        x = F.relu(self.conv_in(x))
        x = self.hidden(x)
        x = self.conv_out(x)
        return x


class MaskedLoss(nn.Module):
    def __init__(self, ignore_val=-1, num_classes=10):
        super().__init__()
        self.ignore_val = ignore_val
        self.num_classes = num_classes
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=ignore_val)

    def ignore_background(self, target: Tensor) -> Tensor:

        # reset all "background" labels to the ignore index
        return torch.where(target == self.num_classes - 1, self.ignore_val, target)

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:

        # ignore background labels
        target = self.ignore_background(target)

        # fewer than two different labels: smallest and largest are the same
        lo, hi = torch.aminmax(target)

        # calculate the cross-entropy loss
        loss = self.loss(pred, target)

        # zero the loss in the case that the number of unique elements
        # is below the threshold
        return torch.where(lo == hi, 0. * loss, loss)


class FakeDataset(Dataset):
    def __init__(self, num_classes=10):
        super().__init__()
        self.num_classes = num_classes
        self.img_size = [256, 256]

    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        rand_image = torch.randn([3]+self.img_size, dtype=torch.float32)
        rand_label = torch.randint(low=-1, high=self.num_classes,
                                   size=self.img_size)
        return rand_image, rand_label


train_set = FakeDataset()
train_loader = torch.utils.data.DataLoader(train_set, batch_size=32,
                                           shuffle=True, num_workers=8, pin_memory=True)

device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
model = Net().to(device)
criterion = MaskedLoss().to(device)

optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
model.train()

for step, data in enumerate(train_loader):
    inputs = data[0].to(device=device, non_blocking=True)
    labels = data[1].to(device=device, non_blocking=True)
    if step >= 100:
        break
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
