# golden: change syncs=0 hot=teach
"""The condition is written twice instead of being named."""
import torch
from torch import Tensor


def teach(teacher: Tensor, student: Tensor) -> Tensor:
    mixed = student.clone()
    mixed = torch.where(teacher > student, teacher, mixed)
    return mixed


def cases(make):
    for dtype in make.floats:
        shape = make.shape(3, 5)
        yield make.tensor(shape, dtype), make.tensor(shape, dtype, requires_grad=True)


def probe(teacher, student):
    return teach(teacher, student)
