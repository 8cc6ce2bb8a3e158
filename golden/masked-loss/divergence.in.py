# golden: change unsafe
"""Distillation over the tokens that are no padding: `batchmean` divides by how many those are."""
import torch.nn.functional as F
from torch import Tensor


def distilled(student: Tensor, teacher: Tensor, keep: Tensor) -> Tensor:
    mask = keep.view(-1) > 0
    guess = F.log_softmax(student.view(-1, student.size(-1)), dim=-1)
    truth = F.softmax(teacher.view(-1, teacher.size(-1)), dim=-1)
    return F.kl_div(guess[mask], truth[mask], reduction="batchmean")


def fit(student, teacher, loader, optimizer):
    for tokens, keep in loader:
        optimizer.zero_grad()
        distilled(student(tokens), teacher(tokens).detach(), keep).backward()
        optimizer.step()


def cases(make):
    yield (
        make.tensor((2, 4, 3), requires_grad=True),
        make.tensor((2, 4, 3)),
        make.mask((2, 4)).float(),
    )


def probe(student, teacher, keep):
    return distilled(student, teacher, keep)
