"""A loader given to torch's DataLoader and torchdata's StatefulDataLoader, as a dataset and inside one of the user's own.

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


def try_one(url, make, workers, way):
    loader = None if way == "inside" else leat.Loader(url, batch_size=16, fields=fields())
    dataset = loader if way == "itself" else Batches(loader, url)
    try:
        batches = make(dataset, batch_size=None, num_workers=workers)
        return {"seen": [number for batch in batches for number in batch[2].tolist()]}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}


def main():
    for make in (torch.utils.data.DataLoader, StatefulDataLoader):
        for workers in (0, 2):
            for way in ("itself", "before", "inside"):
                said = try_one(sys.argv[1], make, workers, way)
                print(json.dumps({"make": make.__name__, "workers": workers, "way": way, **said}), flush=True)


if __name__ == "__main__":
    main()
