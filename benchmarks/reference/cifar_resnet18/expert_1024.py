"""ResNet-18 on CIFAR-shaped data, fed by workers, pinned copies and normalisation on the GPU (as an expert would mend it), in batches of 1024, with float16 and compiled."""
import numpy as np
import torch
import torch.nn
import torch.optim
import torch.utils.data
import torchvision.models
import torchvision.transforms as T
from PIL import Image
from torchvision.datasets.vision import VisionDataset


class FakeCIFAR(VisionDataset):
    def __init__(self, transform):
        super().__init__(root=None, transform=transform)
        self.data = np.random.randint(low=0, high=256, size=(10000, 32, 32, 3), dtype=np.uint8)
        self.targets = np.random.randint(low=0, high=10, size=(10000), dtype=np.uint8).tolist()

    def __getitem__(self, index):
        img, target = self.data[index], self.targets[index]
        img = Image.fromarray(img)
        if self.transform is not None:
            img = self.transform(img)
        return img, target

    def __len__(self) -> int:
        return len(self.data)


transform = T.Compose(
    [T.Resize(224),
     T.PILToTensor()])

train_set = FakeCIFAR(transform=transform)
train_loader = torch.utils.data.DataLoader(train_set, batch_size=1024,
                                           shuffle=True, num_workers=8,
                                           pin_memory=True)

device = torch.device("cuda:0")
model = torchvision.models.resnet18().cuda(device)
criterion = torch.nn.CrossEntropyLoss().cuda(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
model.train()
compiled = torch.compile(model)
scaler = torch.amp.GradScaler("cuda")

# the same operations as ToTensor and Normalize; the divisor is a tensor because
# CUDA multiplies by the reciprocal of a Python number
scale = torch.tensor(255.0, device=device)
mean = torch.tensor((0.5, 0.5, 0.5), device=device).view(3, 1, 1)
std = torch.tensor((0.5, 0.5, 0.5), device=device).view(3, 1, 1)


# train step
def train(data):
    inputs = data[0].to(device=device, non_blocking=True)
    labels = data[1].to(device=device, non_blocking=True)
    inputs = (inputs.float() / scale - mean) / std
    with torch.autocast("cuda", dtype=torch.float16):
        outputs = compiled(inputs)
        loss = criterion(outputs, labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


if __name__ == "__main__":
    for step, batch_data in enumerate(train_loader):
        if step >= 100:
            break
        train(batch_data)
