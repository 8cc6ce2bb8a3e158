# golden: change opt-in
"""A lambda cannot be sent to a worker that is spawned."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.ones(index % 3 + 1).sqrt()


def main():
    loader = DataLoader(Words(), batch_size=3, collate_fn=lambda samples: nn.utils.rnn.pad_sequence(samples, True),
                        num_workers=min(8, os.cpu_count() or 1),
                        multiprocessing_context="fork")
    scale = torch.ones((), requires_grad=True)
    for x in loader:
        (scale * x.to(scale.device)).sum().backward()
    return scale.grad


def probe():
    return main()


if __name__ == "__main__":
    main()
