"""Segmentation in miniature: label every pixel, but learn nothing from background and unlabelled pixels.

The scenes are made up: coloured rectangles on a grey ground, with a border of unlabelled pixels around each
of them, as polygon annotations have them.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 6
BACKGROUND = 0
VOID = 255


class Scenes(Dataset):
    """Scene number `index` is always the same picture, whoever asks for it and in whatever order."""

    def __init__(self, length, size, seed):
        self.length = length
        self.size = size
        self.seed = seed
        self.colours = torch.linspace(-1.0, 1.0, NUM_CLASSES)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * self.length + index)
        labels = torch.full((self.size, self.size), BACKGROUND)
        for _ in range(5):
            top, left = torch.randint(0, self.size * 3 // 4, (2,), generator=generator).tolist()
            height, width = torch.randint(4, self.size // 4 + 5, (2,), generator=generator).tolist()
            kind = int(torch.randint(1, NUM_CLASSES, (), generator=generator))
            labels[top : top + height, left : left + width] = VOID
            labels[top + 1 : top + height - 1, left + 1 : left + width - 1] = kind
        image = self.colours[labels.clamp(max=NUM_CLASSES - 1)].expand(3, -1, -1)
        return image + 0.3 * torch.randn(3, self.size, self.size, generator=generator), labels


class SegmentationNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(3 * width, NUM_CLASSES, 3, padding=1)

    def forward(self, images):
        fine = self.down1(images)
        coarse = self.middle(self.down2(fine))
        coarse = F.interpolate(coarse, size=fine.shape[-2:], mode="nearest")
        return self.head(torch.cat([fine, coarse], dim=1))


class ForegroundLoss(nn.Module):
    """Cross-entropy over the labelled foreground pixels.

    A batch that shows a single kind of label counts for nothing.
    """

    def __init__(self, background=BACKGROUND, void=VOID):
        super().__init__()
        self.background = background
        self.void = void
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, logits, labels):
        # Background pixels teach nothing: treat them like unlabelled ones.
        unwanted = (labels == self.background).nonzero(as_tuple=True)
        labels[unwanted] = self.void

        # A batch without at least two kinds of label gives no useful gradient.
        too_plain = labels.unique().numel() < 2

        labelled = labels != self.void
        scores = logits.permute(0, 2, 3, 1)
        loss = self.criterion(scores[labelled], labels[labelled])
        if too_plain:
            loss = loss * 0.0
        return loss


def build_loader(args):
    scenes = Scenes(args.steps * args.batch_size, args.size, args.seed)
    return DataLoader(scenes, batch_size=args.batch_size, shuffle=True)


def train(args):
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    loader = build_loader(args)
    model = SegmentationNet(args.width).to(device)
    criterion = ForegroundLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    model.train()
    running_loss = 0.0
    for step, (images, labels) in enumerate(loader, start=1):
        images = images.to(device)
        labels = labels.to(device)
        logits = model(images)
        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if step % args.log_every == 0:
            print(f"step {step}: loss {running_loss / args.log_every:.4f}")
            running_loss = 0.0


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=128, help="height and width of a scene in pixels")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    parser.add_argument("--log-every", type=int, default=20, help="steps between two printed losses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    train(parse_args())
