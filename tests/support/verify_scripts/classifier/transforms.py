"""What is done to a PIL image before it is an array."""
import random

from PIL import Image


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


class RandomCrop:
    """Pads with black, then cuts a square out at random."""

    def __init__(self, size, padding=0):
        self.size = size
        self.padding = padding

    def __call__(self, img):
        w, h = img.size
        padded = Image.new(img.mode, (w + 2 * self.padding, h + 2 * self.padding))
        padded.paste(img, (self.padding, self.padding))
        x = random.randint(0, padded.size[0] - self.size)
        y = random.randint(0, padded.size[1] - self.size)
        return padded.crop((x, y, x + self.size, y + self.size))


class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, img):
        if random.random() < self.p:
            return img.transpose(Image.FLIP_LEFT_RIGHT)
        return img
