# golden: stay refused="type and device of"
"""Type and device are those of another tensor."""
import torch


def rest(x):
    scores = torch.softmax(x, -1)
    return scores + torch.zeros(x.size(-1)).to(scores)


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return rest(x)
