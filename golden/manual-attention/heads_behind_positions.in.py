# golden: change numerics=rounding
"""The heads stand behind the positions, in einsums that also move them."""
import torch
import torch.nn.functional as F


def attend(queries, keys, values):
    energy = torch.einsum("nqhd,nkhd->nhqk", queries, keys)
    attention = torch.softmax(energy / (queries.shape[-1] ** 0.5), dim=3)
    return torch.einsum("nhql,nlhd->nqhd", attention, values)


def cases(make):
    torch.manual_seed(0)
    for queries, keys in ((3, 5), (1, 4)):
        sizes = ((2, queries, 4, 8), (2, keys, 4, 8), (2, keys, 4, 6))
        yield tuple(torch.randn(size, device=make.device, requires_grad=True) for size in sizes)


def probe(queries, keys, values):
    return attend(queries, keys, values)
