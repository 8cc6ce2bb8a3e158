# golden: stay silent
"""NumPy and Python numbers have `.item()` and sums as well."""
import numpy as np


def total(batches):
    mean = 0.0
    for batch in batches:
        mean += np.asarray(batch).mean().item()
    return mean / len(batches)


def cases(make):
    yield [make.tensor((3,)).cpu().numpy() for _ in range(3)],


def probe(batches):
    return total(batches)
