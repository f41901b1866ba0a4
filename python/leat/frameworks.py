"""What a Loader is besides where torch is installed: an IterableDataset, with what frameworks ask a DataLoader for.

A framework that resumes in the middle of an epoch (Hugging Face's Trainer, accelerate's skip_first_batches()) builds a DataLoader of
its own from `dataset` and `batch_sampler`, and drops the first n of the sampler's batches. So the sampler here gives numbers of
batches, and the dataset goes to the place of the first number it is asked for: what is skipped is never read.
"""

from __future__ import annotations

import functools
import sys

from leat.errors import InvalidError

WHOLE_BATCHES = (
    "a Loader gives whole batches: iterate over the loader itself, or give a DataLoader batch_size=None, no sampler and "
    "num_workers=0"
)


class Batches:
    """The batches of a pass by number, each number once and in order. Its length is that of the dataset. What it knows of the
    pass is kept in the loader, which does not keep it: a loader that nobody uses any more goes at once."""

    def __init__(self, loader):
        self._loader = loader

    def __len__(self):
        return self._loader.samples

    def __getitem__(self, number):
        raise InvalidError(WHOLE_BATCHES)

    def begin(self):
        self._loader._numbered = None

    def __getitems__(self, numbers):
        """What a DataLoader calls with what the sampler gave: [n]. It is the batch itself, and no list of samples."""
        batches, number = self._loader._numbered or (None, None)
        if len(numbers) != 1 or (batches is not None and numbers[0] != number):
            raise InvalidError(WHOLE_BATCHES)
        if batches is None:
            if numbers[0]:
                self._loader._skip(numbers[0])
            batches = iter(self._loader)
        batch = next(batches)
        self._loader._numbered = batches, numbers[0] + 1
        return batch


@functools.cache
def _numbers():
    """The class of batch samplers; made when torch is there."""
    from torch.utils.data import BatchSampler

    class Numbers(BatchSampler):
        """The numbers of a loader's batches, as a batch sampler has them."""

        def __init__(self, loader):
            self._loader = loader

        sampler = property(lambda self: self._loader.sampler)
        batch_size = property(lambda self: self._loader.batch_size)
        drop_last = property(lambda self: self._loader.drop_last)

        def __len__(self):
            return len(self._loader)

        def __iter__(self):
            self._loader.dataset.begin()
            for number in range(len(self)):
                yield [number]

        def set_epoch(self, epoch):
            self._loader.set_epoch(epoch)

    return Numbers


class ForTorch:
    """What DataLoaders have besides. Samplers are there to be asked, not to be used: the agent decides what comes when."""

    num_workers = 0
    prefetch_factor = None  # or accelerate takes it for 2, which a DataLoader without workers refuses
    pin_memory = False
    _numbered = None  # a pass whose batches are asked for by number, and the next number

    @property
    def dataset(self):
        return Batches(self)

    @property
    def batch_sampler(self):
        return _numbers()(self)

    @property
    def sampler(self):
        from torch.utils.data import RandomSampler, SequentialSampler

        return RandomSampler(self.dataset) if self._shuffle else SequentialSampler(self.dataset)

    @property
    def batch_size(self):
        return self._samples_each()

    @property
    def drop_last(self):
        return self._last == "drop"

    @staticmethod
    def collate_fn(batch):
        """A batch is one already."""
        return batch

    def __iter__(self):
        _refuse_collating(sys._getframe(1))
        return super().__iter__()


def _refuse_collating(frame):
    """A DataLoader with a batch size would stack batches, without a word. It can be told only from who calls. Nobody else's
    frame is looked into: asking for f_locals keeps what is in them, the last batch for example, until that function ends."""
    if frame.f_code.co_name != "__init__" or frame.f_globals.get("__name__") != "torch.utils.data._utils.fetch":
        return
    if getattr(frame.f_locals.get("self"), "auto_collation", False):
        raise InvalidError(WHOLE_BATCHES)


@functools.cache
def adopted(kind):
    """A kind of Loader that is an IterableDataset too, so that DataLoaders and isinstance() know it."""
    from torch.utils.data import IterableDataset

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (ForTorch, kind, IterableDataset), {**names, "_leat_kind": kind})
