# golden: stay refused
"""The number goes into a list of Python numbers that is written as JSON."""
import json

import torch
from torch import Tensor


def survey(maps: Tensor) -> str:
    counts = []
    for segments in maps:
        counts.append(segments.unique().numel())
    return json.dumps(counts)


def cases(make):
    yield make.labels((3, 4, 4), 4),


def probe(maps):
    return survey(maps)
