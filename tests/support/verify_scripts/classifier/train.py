'''A small ResNet for 16x16 images.'''
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from transforms import Compose, RandomCrop, RandomHorizontalFlip

device = 'cuda' if torch.cuda.is_available() else 'cpu'

torch.manual_seed(0)
np.random.seed(0)

# Data
classes = ('plane', 'car', 'bird', 'cat')


class Images(Dataset):
    def __init__(self, n, transform=None):
        self.data = np.random.randint(0, 256, size=(n, 16, 16, 3), dtype=np.uint8)
        self.targets = np.random.randint(0, len(classes), size=n).tolist()
        self.transform = transform
        self.mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
        self.std = torch.tensor([0.2023, 0.1994, 0.2010]).view(3, 1, 1)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        img, target = Image.fromarray(self.data[index]), self.targets[index]
        if self.transform is not None:
            img = self.transform(img)
        img = torch.from_numpy(np.array(img)).permute(2, 0, 1)
        img = img.float() / 255
        img = (img - self.mean) / self.std
        return img, target


transform_train = Compose([
    RandomCrop(16, padding=2),
    RandomHorizontalFlip(),
])

trainset = Images(44, transform=transform_train)
trainloader = DataLoader(trainset, batch_size=8, shuffle=True, num_workers=0)
testset = Images(16)
testloader = DataLoader(testset, batch_size=8, shuffle=False, num_workers=0)


# Model
class Block(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.conv1 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return F.relu(out)


class Net(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.block = Block(8)
        self.linear = nn.Linear(8, num_classes)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.block(out)
        out = out.mean(dim=(2, 3))
        return self.linear(out)


net = Net().to(device)
criterion = nn.CrossEntropyLoss()
# the stem stays as it is
optimizer = optim.SGD([
    {'params': net.conv1.parameters(), 'lr': 0.0},
    {'params': [p for n, p in net.named_parameters() if not n.startswith('conv1.')]},
], lr=0.1, momentum=0.9, weight_decay=5e-4)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
best_acc = 0


# Training
def train(epoch):
    net.train()
    train_loss = 0
    correct = 0
    total = 0
    for batch_idx, (inputs, targets) in enumerate(trainloader):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()

        train_loss += loss.item()
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum().item()
    print('Epoch: %d | Loss: %.3f | Acc: %.3f%% (%d/%d)'
          % (epoch, train_loss/(batch_idx+1), 100.*correct/total, correct, total))


def test(epoch):
    global best_acc
    net.eval()
    correct = 0
    total = 0
    with torch.no_grad():
        for inputs, targets in testloader:
            inputs, targets = inputs.to(device), targets.to(device)
            outputs = net(inputs)
            total += targets.size(0)
            correct += outputs.argmax(1).eq(targets).sum().item()

    acc = 100.*correct/total
    if acc > best_acc:
        torch.save({'net': net.state_dict(), 'acc': acc, 'epoch': epoch}, 'ckpt.pth')
        best_acc = acc


for epoch in range(20):
    train(epoch)
    test(epoch)
    scheduler.step()
