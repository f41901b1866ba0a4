"""A loader given to torch's DataLoader and torchdata's StatefulDataLoader, as the dataset and inside one of the user's own.

dataloader.py URL: prints for each way the numbers of an epoch as JSON, or the error's type and sentence."""

import json
import sys

import leat
import torch
from seen import fields
from torchdata.stateful_dataloader import StatefulDataLoader


class Batches(torch.utils.data.IterableDataset):
    """A loader opened before the workers are forked, or by each of them."""

    def __init__(self, loader, url):
        self.loader = loader
        self.url = url

    def __iter__(self):
        return iter(self.loader or leat.Loader(self.url, batch_size=16, fields=fields()))


def open_loader(url):
    return leat.Loader(url, batch_size=16, fields=fields())


def numbers(batches):
    return [number for batch in batches for number in batch[2].tolist()]


def try_one(url, make, way, **options):
    loader = None if way == "inside" else open_loader(url)
    if way == "used":
        next(iter(loader))
    dataset = loader if way == "itself" else Batches(loader, url)
    try:
        return {"seen": numbers(make(dataset, **options))}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}


def resume(url):
    """StatefulDataLoader: four batches of epoch 1, and the rest by another one from the state of the first."""
    batches = StatefulDataLoader(open_loader(url), batch_size=None)
    numbers(batches)
    passed = iter(batches)
    before = numbers(next(passed) for _ in range(4))
    state = json.loads(json.dumps(batches.state_dict()))
    later = StatefulDataLoader(open_loader(url), batch_size=None)
    later.load_state_dict(state)
    return {"before": before, "after": numbers(later), "then": numbers(later)}


def main():
    for make in (torch.utils.data.DataLoader, StatefulDataLoader):
        for workers in (0, 1, 2):
            for way in ("itself", "before", "used", "inside"):
                said = try_one(sys.argv[1], make, way, batch_size=None, num_workers=workers)
                print(json.dumps({"make": make.__name__, "workers": workers, "way": way, **said}), flush=True)
        for options in ({}, {"batch_size": 4}, {"batch_sampler": [[0, 1], [2]]}, {"batch_size": None, "shuffle": True}):
            said = try_one(sys.argv[1], make, "itself", **options)
            print(json.dumps({"make": make.__name__, "workers": 0, "way": "samples", **said}), flush=True)
    print(json.dumps(resume(sys.argv[1])), flush=True)


if __name__ == "__main__":
    main()
