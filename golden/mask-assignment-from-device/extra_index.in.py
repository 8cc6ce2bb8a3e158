# golden: stay refused
"""The mask is one of two indices: it selects rows, the other a column."""
import torch
from torch import Tensor


def clip_boxes(boxes: Tensor, limits: Tensor) -> Tensor:
    boxes = boxes.clone()
    outside = boxes[:, 2] > limits[:, 2]
    boxes[outside, 2] = limits[outside, 2]
    return boxes


def cases(make):
    yield make.tensor((5, 4)), make.tensor((5, 4))


def probe(boxes, limits):
    return clip_boxes(boxes, limits)
