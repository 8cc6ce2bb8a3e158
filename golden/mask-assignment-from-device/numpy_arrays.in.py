# golden: stay silent
"""NumPy arrays with the same words."""
import numpy as np


def fill(depth, coarse):
    depth = np.array(depth)
    holes = depth <= 0
    depth[holes] = coarse[holes]
    return depth


def cases(make):
    yield make.tensor((3, 4)).cpu().numpy(), make.tensor((3, 4)).cpu().numpy()


def probe(depth, coarse):
    return fill(depth, coarse)
