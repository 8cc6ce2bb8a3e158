# golden: stay silent
"""The same words in NumPy: nothing waits for a device here."""
import numpy as np


def ignore_void(mask: np.ndarray) -> np.ndarray:
    void = np.nonzero(mask == 255)
    mask[void] = 0
    border = np.where(mask > 2)
    mask[border] = 2
    mask[(mask == 1).nonzero()] = 7
    return mask


def cases(make):
    yield make.labels((3, 4), 5, other=255).cpu().numpy(),


def probe(mask):
    return ignore_void(mask)
