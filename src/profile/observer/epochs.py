"""Which loaders the training takes its batches from, and what the report is told of them. Those of validation, and of a look at a
batch before the training, are others."""

import contextlib
import sys

lanes = sys.modules["_leat_lane"]
current = lanes.current
PARTS = 16  # of a list that are weighed
TRIAL = 2  # steps at the beginning, before which a script may have looked at any loader


def weigh(batch, batch_size=0):
    """(samples, bytes) of a batch, as far as its tensors and arrays tell. Whatever a batch is, it is no error here. `batch_size`: how
    many samples its loader puts together, 0 where that is not known."""
    rows, lengths = [], []
    try:
        size = _weigh(batch, rows, lengths)
    except Exception:  # a class of the script's own, whose properties may do anything
        return batch_size, 0
    # A script may make a batch as it likes: a list of pictures, or with time as the first dimension. The last one may be smaller.
    if not batch_size or (rows and len(set(rows)) == 1 and rows[0] < batch_size and batch_size not in lengths):
        return max(rows, default=0), size
    return batch_size, size


def _weigh(batch, rows, lengths, depth=3):
    if hasattr(batch, "nbytes") and hasattr(batch, "shape"):
        rows.append(int(batch.shape[0]) if len(batch.shape) else 1)
        return int(batch.nbytes)
    if depth and isinstance(batch, dict):
        batch = list(batch.values())
    if depth and isinstance(batch, (list, tuple)) and batch:
        lengths.append(len(batch))
        size = sum(_weigh(part, rows, lengths, depth - 1) for part in batch[:PARTS])
        return size * len(batch) // min(len(batch), PARTS)
    return 0


class Epochs:
    def __init__(self):
        self.about = {}  # of a loader: its workers, samples of its dataset and of a batch (0: not known)
        self.weights = {}  # of its batches: how many were asked, and (samples, bytes) of the last that was weighed
        self.given = {}  # batches of the epoch that it is in
        self.since = []  # loaders whose batches were given since the last backward pass
        self.training = []  # … of the last step
        self.steps = 0
        self.workers = None  # that the report was told of first
        self.changed = False  # and that there were others: said once, for a training may change them in every step

    def begin(self, number, loader):
        """A loader begins to give out batches. What it gave of an epoch that was left early is an epoch."""
        self.end(number)
        samples = 0
        with contextlib.suppress(Exception):  # it need not have a length
            samples = len(loader.dataset)
        self.about[number] = loader.num_workers, samples, loader.batch_size or 0

    def weight(self, number, batch):
        """Weighing costs as much as all else here: after the first batches every eighth is."""
        found = self.weights.get(number)
        if found is None:
            found = self.weights[number] = [0, None]
        found[0] += 1
        if found[0] <= 16 or not found[0] & 7:
            found[1] = weigh(batch, self.about.get(number, (0, 0, 0))[2])
        return found[1]

    def give(self, number, trains):
        """A batch was given out; `trains`: gradients are made."""
        if trains and number not in self.since:
            self.since.append(number)

    def train(self):
        """There was a backward pass: with the batches since the one before."""
        if not self.since:
            return
        self.steps += 1
        if self.since != self.training or self.steps <= TRIAL + 1:
            self.training = self.since
            self.tell()
        self.since = []

    def tell(self):
        told = [self.about.get(number, (0, 0, 0)) for number in self.training]
        workers = sum(each[0] for each in told)
        lanes.put(lanes.W_WORKERS, workers)
        lanes.put(lanes.W_SAMPLES, max(each[1] for each in told))
        if self.steps <= TRIAL:
            return
        if self.workers is None:
            self.workers = workers
        elif self.workers != workers and not self.changed:
            self.changed = True
            lanes.note(
                f"the training takes batches from loaders with {self.workers} and with {workers} workers: steps and batches are "
                "means of both, and do not tell what either would do alone"
            )

    def count(self, number):
        if current.mode & ~lanes.WARMUP == lanes.OBSERVED:
            self.given[number] = self.given.get(number, 0) + 1

    def end(self, number):
        """How many batches an epoch of the training has, once one is over."""
        batches = self.given.pop(number, 0)
        if number in self.since:  # all of it was without a backward pass, or its last batches were
            self.since.remove(number)
        if batches and number in self.training:
            lanes.put(lanes.W_EPOCH, batches)


epochs = Epochs()
