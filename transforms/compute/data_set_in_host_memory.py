"""Tensors that lie in host memory, out of which every batch is collated and copied to the device anew.

A `TensorDataset` holds tensors that are ready. Its loader takes them apart sample by sample, stacks the samples again
and leaves the copy to the loop, in every epoch. Where all of the data fits on the device, it can be moved there once,
and each batch is one indexing operation there:

    train_set = TensorDataset(x, y)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)

    train_set = TensorDataset(x.to(device), y.to(device))
    train_loader = DataLoader(range(len(train_set)), batch_size=64, shuffle=True, collate_fn=batches_of(train_set))

The loader counts samples, and a function, which is written into the file, takes a whole batch of them out of the data
set. Everything by which the loader draws and groups them stays, so that every epoch has the same batches in the same
order. The loop stays as it is: its `x.to(device)` has nothing left to do, nor has `x.type(Tensor)` with a type of
tensors that lie on the device, `Tensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`, where they have
that type. Workers and pinned memory are for data on the host, so `num_workers`, `pin_memory` and what belongs to them
go.

Pictures of torchvision that lie in host memory (MNIST, FashionMNIST, KMNIST, EMNIST, QMNIST, CIFAR10, CIFAR100, SVHN)
cost more: each is made into a tensor anew in every epoch. Where the transform makes the same sample every time
(`ToTensor`, `Normalize`, `Resize` and the like, alone or in a `Compose`), they are prepared once, and then are tensors
like others:

    train_set = datasets.MNIST("data", transform=transforms.ToTensor())

    train_set = datasets.MNIST("data", transform=transforms.ToTensor())
    train_set = TensorDataset(*(part.to(device) for part in default_collate([*train_set])))

That needs torch 1.11. It takes as long as the loader takes for one epoch without workers, before the first step, and
while it lasts the samples lie in host memory twice. A data set that one loop goes through once stays as it is. So does
one whose samples may differ between epochs: with a random transform, one that the code changes, a function, or a
`target_transform`. Where the data set is used for its names or single samples, too (`train_set.classes`,
`train_set[0]`), it keeps its name, and the tensors get another.

All loaders of a data set are rewritten together, evaluation too, or none. They stay where a batch is used on the host
before it is moved, where the data set or a loader is used for something else (`random_split`, `dataset[0]`,
`loader.batch_size`, a framework), where batches are made in another way (`collate_fn`, a sampler), moved several times
or under a condition, or become integers on the way, where several processes share the training, where the device is not
known above the data set, and where tensors are not seen to be plain data: computed by a model, changed later, or with
another order in memory.

How large the data is does not show in the code, so whether it fits is an open question: `--unsafe`, or
`assume = ["fits-on-the-device"]` for the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.compute._moved_batches import Kept, Move
from perfmod.transforms.compute._resident_edits import DEFINITION
from perfmod.transforms.compute._resident_rewrites import pictures_on_device, tensors_on_device
from perfmod.transforms.compute._resident_uses import data_set_of, loaders_of, require_one_process
from perfmod.transforms.compute._same_samples import is_picture_set
from perfmod.transforms.compute._sampling import draws_otherwise, makes_no_batches
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.data_api import HELD_IN_MEMORY
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question


class DataSetInHostMemory(Rule):
    code = "PM315"
    name = "data-set-in-host-memory"
    family = Family.COMPUTE
    summary = "Every batch is collated from samples in host memory and copied to the device"
    fix_title = "Keep the data set on the device and take batches out of it there"
    numerics = Numerics.SAMPLING
    safety = Safety.OPT_IN
    min_torch = "1.2"
    status = Status.PREVIEW
    comes_first = True
    triggers = frozenset({"TensorDataset"}) | HELD_IN_MEMORY
    references = (
        "https://docs.pytorch.org/docs/stable/data.html#dataloader-collate-fn",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    )
    changes_results = (
        "Not without workers, nor with workers that are started anew in every epoch: the batches, their order and the "
        "state of the random number generators are the same. With `persistent_workers` the order is another from the "
        "second epoch on, because other seeds are drawn. If an array that was read from a file has its dimensions in "
        "another order in memory, so have the batches, whose values are the same. An allocation that fails for lack of "
        "memory, or a file that cannot be read, fails before the first step."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        done: set[cst.CSTNode] = set()
        for loader in file.loaders if uses_accelerator(file) else ():
            if loader.name != TORCH_LOADER or not loader.iterations or makes_no_batches(file, loader):
                continue
            if loader.call in done:
                continue
            try:
                data_set = data_set_of(file, loader)
                together, is_shown = loaders_of(file, data_set)
                done |= {each.call for each in together}
                require_one_process(file)
                is_made = is_picture_set(file, data_set)
                if is_made:
                    edits, found = pictures_on_device(file, data_set, together, is_shown=is_shown)
                else:
                    edits, found = tensors_on_device(file, data_set, together)
                yield self._found(file, data_set, together, found, edits, is_made=is_made)
            except Kept as reason:
                yield self.refused(file, loader.call, str(reason))

    def _found(
        self,
        file: FileFacts,
        data_set: cst.Call,
        together: list[Loader],
        found: list[Move],
        edits: Iterable[Edit],
        *,
        is_made: bool,
    ) -> Finding:
        """The finding of a data set; `is_made` says that its samples are made anew in every epoch as yet."""
        other = next(filter(None, map(draws_otherwise, together)), "")
        where = file.lines([each.call for each in found])
        made = "its transform makes the same sample of a picture every time, " if is_made else ""
        return self.found(
            file,
            together[0].call,
            other or f"{made}its batches are moved unchanged ({where}), and come in the same order",
            edits,
            message="Every sample is made of its picture anew in every epoch, and copied to the device"
            if is_made
            else None,
            safety=Safety.UNSAFE,
            numerics=Numerics.SAMPLING if other else Numerics.BITWISE,
            min_torch="1.11" if is_made else None,
            imports=("torch",),
            definitions=(DEFINITION,),
            questions=[question(file, Predicate.FITS_ON_THE_DEVICE, data_set)],
        )
