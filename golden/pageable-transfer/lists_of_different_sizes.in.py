# golden: change
"""Detection: tuples of pictures and of dictionaries come through a logger, and are taken apart before they are used."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 6

    def __getitem__(self, index):
        picture = torch.full((3, 4 + index, 5), float(index))
        boxes = torch.arange(4.0 * (index + 1)).reshape(-1, 4)
        return self.transform(picture, {"boxes": boxes, "index": torch.tensor(index)})


def doubled(picture, target):
    return picture * 2, target


def collate(batch):
    return tuple(zip(*batch))


class Logger:
    def log_every(self, items, every):
        for number, item in enumerate(items):
            yield item
            if number % every == 0:
                print(number)


def train_one_epoch(model, loader, device):
    for images, targets in Logger().log_every(loader, 2):
        images = list(image.to(device) for image in images)
        targets = [{name: value.to(device) for name, value in target.items()} for target in targets]
        losses = [model(image.mean(dim=(1, 2))) - target["boxes"].mean() for image, target in zip(images, targets)]
        torch.stack(losses).square().mean().backward()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 1).to(device)
    train_one_epoch(model, DataLoader(Pictures(doubled), batch_size=2, num_workers=2, collate_fn=collate), device)
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
