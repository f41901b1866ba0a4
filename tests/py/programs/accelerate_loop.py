"""accelerate, in three ways to go on in the middle of an epoch. accelerate_loop.py URL FOLDER [STOP]

In each way trains two epochs, or ends after STOP steps and goes on there when called without STOP:
    ahead: a DataLoader around the loader, which accelerate reads a batch ahead; the state of the batch just trained on is saved
    checkpoint: the loader as it is, registered with accelerate, whose save_state() and load_state() keep its place
    skip: the loader as it is; of its place only the number of the step is saved, for accelerate's skip_first_batches()
"""

import json
import os
import sys

import leat
import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.data_loader import DataLoaderShard
from seen import Net, fields, finish, loss_of, note


class Way:
    """The loader as it is."""

    def __init__(self, accelerator, loader, path):
        self.accelerator = accelerator
        self.loader = loader
        self.path = path
        self.batches = accelerator.prepare(loader)
        assert self.batches is loader, "accelerate leaves what is no DataLoader alone"

    def epoch(self, number):
        self.batches.set_epoch(number)
        return self.batches

    def write(self, what):
        with open(self.path, "w") as file:
            json.dump(what, file)

    def read(self):
        with open(self.path) as file:
            return json.load(file)


class Ahead(Way):
    def __init__(self, *more):
        super().__init__(*more)
        self.batches = self.accelerator.prepare(torch.utils.data.DataLoader(self.loader, batch_size=None))
        assert isinstance(self.batches, DataLoaderShard), "one that reads a batch ahead"

    def save(self, epoch, step, batch):
        assert leat.state_of(batch) != self.loader.state_dict()
        self.write(leat.state_of(batch))

    def load(self):
        self.loader.load_state_dict(self.read())
        return self.loader.epoch


class Checkpoint(Way):
    def __init__(self, *more):
        super().__init__(*more)
        self.accelerator.register_for_checkpointing(self.loader)

    def save(self, epoch, step, batch):
        self.accelerator.save_state(self.path)

    def load(self):
        self.accelerator.load_state(self.path)
        return self.loader.epoch


class Skip(Way):
    skipped = 0

    def save(self, epoch, step, batch):
        self.write([epoch, step])

    def load(self):
        epoch, self.skipped = self.read()
        return epoch

    def epoch(self, number):
        batches = super().epoch(number)
        skipped, self.skipped = self.skipped, 0
        return skip_first_batches(batches, skipped) if skipped else batches


def train(name, url, folder, stop):
    path = os.path.join(folder, name)
    accelerator = Accelerator(cpu=True, device_placement=False)
    loader = leat.Loader(url, global_batch_size=16, seed=3, fields=fields(), as_dict=True)
    net = Net()
    net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.05))
    way = WAYS[name](accelerator, loader, path)
    first = way.load() if os.path.exists(path) else 0
    for epoch in range(first, 2):
        for step, batch in enumerate(way.epoch(epoch)):
            optimizer.zero_grad()
            accelerator.backward(loss_of(net, batch["x"], batch["y"]))
            optimizer.step()
            note(name, epoch, batch["i"])
            stop -= 1
            if stop == 0:
                return way.save(epoch, step + 1, batch)
    return None


WAYS = {"ahead": Ahead, "checkpoint": Checkpoint, "skip": Skip}


def main():
    url, folder = sys.argv[1:3]
    for name in WAYS:
        train(name, url, folder, int(sys.argv[3]) if len(sys.argv) > 3 else -1)
    finish()


if __name__ == "__main__":
    main()
