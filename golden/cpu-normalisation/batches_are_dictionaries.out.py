# golden: change
"""The image is an entry of a sample; other entries are left alone."""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

preprocess = transforms.Compose([
    transforms.Resize((6, 6)),
    transforms.PILToTensor(),
])


class Captions(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        image = Image.fromarray(np.full((8, 8, 3), 20 * index, dtype=np.uint8))
        return {"image": preprocess(image), "weight": torch.tensor(index / 6)}


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = torch.tensor(255.0, device=device)
    image_mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(-1, 1, 1)
    image_std = torch.tensor([0.229, 0.224, 0.225], device=device).view(-1, 1, 1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Captions(), batch_size=3):
        images = batch["image"].to(device)
        images = images.float().div_(scale).sub_(image_mean).div_(image_std)
        weights = batch["weight"].to(device)
        loss = (model(images).squeeze(1) * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
