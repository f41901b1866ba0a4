"""A small training over HTTPS with what is installed, torch where it is there and numpy else: python train.py URL.

Prints one JSON object: the library used, what its losses were, and how long the first batch took.
"""

import json
import sys
import time

began = time.monotonic()

import leat  # noqa: E402
import numpy  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def steps(url):
    """(images as floats in rows, labels) of three epochs."""
    fields = {"x": leat.image("image").resize((16, 16)), "y": leat.int("cls")}
    with leat.Loader(url, batch_size=8, fields=fields, seed=1, ram="64MiB") as loader:
        for _ in range(3):
            for x, y in loader:
                yield x.reshape(len(x), -1), y


def train_numpy(batches):
    weights = numpy.zeros(16 * 16 * 3)
    for x, y in batches:
        rows = x / 127.5 - 1
        guess = 1 / (1 + numpy.exp(-(rows @ weights)))
        yield float(-numpy.log(numpy.where(y == 1, guess, 1 - guess)).mean())
        weights -= 0.01 * (rows.T @ (guess - y)) / len(y)


def train_torch(batches):
    model = torch.nn.Linear(16 * 16 * 3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(model(x / 127.5 - 1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


losses, first = [], None
for loss in (train_torch if torch else train_numpy)(steps(sys.argv[1])):
    first = first or time.monotonic() - began
    losses.append(loss)
print(json.dumps({"library": "torch" if torch else "numpy", "losses": losses, "first_s": first, "leat": leat.__file__}))
