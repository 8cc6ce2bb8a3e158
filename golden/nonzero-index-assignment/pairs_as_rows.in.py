# golden: stay refused
"""Without `as_tuple` the coordinates of a 2-D condition are rows of the index: both columns index dimension 0."""
import torch
from torch import Tensor


def erase(board: Tensor, limit: float) -> Tensor:
    board = board.clone()
    cells = torch.nonzero(board > limit)
    board[cells] = 0.0
    return board


def cases(make):
    yield make.tensor((4, 4)),


def probe(board):
    return erase(board, 0.5)
