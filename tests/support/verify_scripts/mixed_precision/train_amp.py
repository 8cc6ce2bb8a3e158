import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(3)
device = "cuda" if torch.cuda.is_available() else "cpu"
amp_dtype = torch.float16 if device == "cuda" else torch.bfloat16
epochs = 4


class Frames(Dataset):
    def __init__(self, count=48):
        self.frames = np.random.default_rng(1).integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        mask = torch.from_numpy(self.frames[index].mean(axis=2) > 128).float().unsqueeze(0)
        image = torch.from_numpy(self.frames[index]).permute(2, 0, 1)
        image = image.float() / 255
        image = (image - self.mean) / self.std
        return image, mask


class UNet(nn.Module):
    """Down once, up once."""

    def __init__(self, channels=8):
        super().__init__()
        self.inc = self.double_conv(3, channels)
        self.down = nn.MaxPool2d(2)
        self.mid = self.double_conv(channels, 2 * channels)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.outc = nn.Conv2d(3 * channels, 1, kernel_size=1)

    @staticmethod
    def double_conv(i, o):
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU(),
            nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU(),
        )

    def forward(self, x):
        skip = self.inc(x)
        y = self.up(self.mid(self.down(skip)))
        return self.outc(torch.cat([skip, y], dim=1))


def dice_loss(logits, masks, eps=1.0):
    probs = logits.float().sigmoid()
    inter = (probs * masks).sum(dim=(1, 2, 3))
    total = probs.sum(dim=(1, 2, 3)) + masks.sum(dim=(1, 2, 3))
    return 1 - ((2 * inter + eps) / (total + eps)).mean()


loader = DataLoader(Frames(), batch_size=4, shuffle=True)

model = UNet().to(device)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
scaler = torch.amp.GradScaler(device)
bce = nn.BCEWithLogitsLoss()

for epoch in range(epochs):
    model.train()
    epoch_loss = 0
    for x, mask in loader:
        x = x.to(device)
        mask = mask.to(device)

        with torch.autocast(device_type=device, dtype=amp_dtype):
            pred = model(x)
            loss = bce(pred, mask)
            loss += dice_loss(pred, mask)

        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

        epoch_loss += loss.item()
    print(f"epoch {epoch}: {epoch_loss / len(loader):.4f}")
