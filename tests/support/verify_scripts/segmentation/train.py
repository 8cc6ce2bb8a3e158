"""Segmentation with a masked loss; background and unlabelled pixels don't count."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim
import torch.utils.data
from torch import Tensor
from torch.utils.data import Dataset


class Net(nn.Module):
    def __init__(self, num_hidden=2, num_classes=5):
        super().__init__()
        self.conv_in = nn.Conv2d(3, 8, 3, padding='same')
        hidden = []
        for i in range(num_hidden):
            hidden.append(nn.Conv2d(8, 8, 3, padding='same'))
            hidden.append(nn.ReLU())

        self.hidden = nn.Sequential(*hidden)
        self.conv_out = nn.Conv2d(8, num_classes, 3, padding='same')

    def forward(self, x):
        x = F.relu(self.conv_in(x))
        x = self.hidden(x)
        x = self.conv_out(x)
        return x


class MaskedLoss(nn.Module):
    def __init__(self, ignore_val=-1, num_classes=5):
        super().__init__()
        self.ignore_val = ignore_val
        self.num_classes = num_classes
        self.loss = torch.nn.CrossEntropyLoss()

    def cross_entropy(self, pred: Tensor, target: Tensor) -> Tensor:

        # pixels that have a label
        mask = target != self.ignore_val

        # put the classes last, as the mask wants it
        permuted_pred = torch.permute(pred, [0, 2, 3, 1])

        # keep those pixels only
        masked_target = target[mask]
        masked_pred = permuted_pred[mask.unsqueeze(-1).expand(-1, -1, -1,
                                                             self.num_classes)]
        masked_pred = masked_pred.reshape(-1, self.num_classes)

        loss = self.loss(masked_pred, masked_target)
        return loss

    def ignore_background(self, target: Tensor) -> Tensor:

        # the last class is the background
        inds = torch.nonzero(target == self.num_classes - 1, as_tuple=True)
        target[inds] = self.ignore_val
        return target

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        target = self.ignore_background(target)

        # one class only: there is nothing to tell apart
        unique = torch.unique(target)
        ignore_loss = torch.numel(unique) < 2

        loss = self.cross_entropy(pred, target)
        if ignore_loss:
            loss = 0. * loss

        return loss


def foreground_penalty(pred: Tensor, target: Tensor) -> Tensor:
    """How much of what the net calls foreground has no label."""
    labelled = (target >= 0).float()
    foreground = pred[:, :-1].logsumexp(dim=1).sigmoid()
    return ((1 - labelled) * foreground).mean()


class FakeDataset(Dataset):
    def __init__(self, num_classes=5):
        super().__init__()
        self.num_classes = num_classes
        self.img_size = [16, 16]

    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        rand_image = torch.randn([3]+self.img_size, dtype=torch.float32)
        rand_label = torch.randint(low=-1, high=self.num_classes,
                                   size=self.img_size)
        return rand_image, rand_label


train_set = FakeDataset()
train_loader = torch.utils.data.DataLoader(train_set, batch_size=4,
                                           shuffle=True)

device = torch.device(sys.argv[1] if len(sys.argv) > 1 else
                      "cuda:0" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
criterion = MaskedLoss().to(device)

optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model.train()

for step, data in enumerate(train_loader):
    inputs = data[0].to(device=device)
    labels = data[1].to(device=device)
    if step >= 100:
        break
    outputs = model(inputs)
    loss = criterion(outputs, labels) + 0.1 * foreground_penalty(outputs, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
