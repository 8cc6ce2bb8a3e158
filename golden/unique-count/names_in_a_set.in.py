# golden: stay silent
"""A set of Python strings, and one of the list of a plain Python object."""
from collections import deque


class History:
    def __init__(self, items):
        self.items = deque(items)

    def tolist(self):
        return list(self.items)


def mixed(names, numbers):
    return len(set(names)) < 2, len(set(History(numbers).tolist())) == 1


def cases(make):
    yield ["cat", "dog", "cat"], [make.below(2), make.below(2)]


def probe(names, numbers):
    return mixed(names, numbers)
