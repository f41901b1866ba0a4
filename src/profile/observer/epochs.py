"""Which loaders the training takes its batches from, and what the report is told of them. Those of validation, and of a look at a
batch before the training, are others."""

import sys

lanes = sys.modules["_leat_lane"]
current = lanes.current
TRIAL = 2  # steps at the beginning, before which a script may have looked at any loader


class Epochs:
    def __init__(self):
        self.about = {}  # of a loader: its workers, and samples of its dataset (0: not known)
        self.given = {}  # batches of the epoch that it is in
        self.since = []  # loaders whose batches were given since the last backward pass
        self.training = []  # … of the last step
        self.steps = 0
        self.workers = None  # that the report was told of first

    def begin(self, number, workers, samples):
        """A loader begins to give out batches. What it gave of an epoch that was left early is an epoch."""
        self.end(number)
        self.about[number] = workers, samples

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
        told = [self.about.get(number, (0, 0)) for number in self.training]
        workers = sum(each[0] for each in told)
        lanes.put(lanes.W_WORKERS, workers)
        lanes.put(lanes.W_SAMPLES, max(each[1] for each in told))
        if self.steps <= TRIAL:
            return
        if self.workers is None:
            self.workers = workers
        elif self.workers != workers:
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
