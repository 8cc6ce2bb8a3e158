# golden: change syncs=0 hot=train_step
"""`x = x.to(device)`, twice, in a step function; the loader is made in `main`."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_step(model, optimizer, images, labels, device):
    images = images.to(device, non_blocking=True)
    labels = labels.to(device, non_blocking=True)
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randn(12, 3), torch.randint(0, 2, (12,)))
    loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=1, pin_memory=True)
    model = nn.Linear(3, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return [train_step(model, optimizer, images, labels, device) for images, labels in loader], model


def probe():
    return main()


if __name__ == "__main__":
    main()
