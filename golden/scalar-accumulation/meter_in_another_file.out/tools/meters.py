import torch


class AverageMeter:
    """Keeps the last value, and the mean of all."""

    def __init__(self):
        self.reset()

    def reset(self):
        self._val = 0
        self._sum = 0
        self.count = 0

    def update(self, val, n=1):
        self._val = val
        self._sum += val * n
        self.count += n
        if not self.count:
            raise ZeroDivisionError("division by zero")

    @property
    def val(self):
        return self._val.item() if torch.is_tensor(self._val) else self._val

    @property
    def sum(self):
        return self._sum.item() if torch.is_tensor(self._sum) else self._sum

    @property
    def avg(self):
        return self.sum / self.count if self.count else 0
