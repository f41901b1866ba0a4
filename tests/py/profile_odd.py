"""Odd but honest training scripts for test_profile_faults.py: profile_odd.py KIND. Each makes 30 steps, or dies on the way."""

import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.set_num_threads(1)
KIND = sys.argv[1]
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
steps = 0


class Rows(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        if KIND == "worker" and i == 9:
            raise ValueError("sample 9 is bad")
        return torch.full((4,), float(i))


class Stream(IterableDataset):
    def __iter__(self):
        return (torch.full((4,), float(i)) for i in range(10))


class Touchy:
    """A batch that does not like to be asked."""

    def __init__(self, rows):
        self.rows = torch.stack(rows)

    @property
    def nbytes(self):
        raise RuntimeError("do not ask")


def train(x):
    global steps  # noqa: PLW0603
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1


def changing():
    """Loaders of all kinds one after the other, one within another, and one that is left in the middle."""
    for x in DataLoader(Stream(), batch_size=2, num_workers=1):  # 5
        train(x)
    kept = DataLoader(Rows(), batch_size=4, num_workers=1, persistent_workers=True, pin_memory=True)
    for _ in range(2):  # 10
        for x in kept:
            train(x)
    for i, x in enumerate(DataLoader(Rows(), batch_size=2)):  # 5
        if i == 5:
            break
        train(x)
        with torch.no_grad():
            for y in DataLoader(Rows(), batch_size=10):
                net(y)
    for x, y in zip(DataLoader(Rows(), batch_size=4), DataLoader(Rows(), batch_size=4), strict=True):  # 5
        train(x + y)
    for batch in DataLoader(Rows(), batch_size=4, collate_fn=Touchy):  # 5
        train(batch.rows)


def plain():
    for x in DataLoader(Rows(), batch_size=2, num_workers=int(KIND == "worker")):
        train(x)
    for _ in range(2):
        for x in DataLoader(Rows(), batch_size=2):
            train(x)


def trace(frame, event, arg):
    seen.add(frame.f_code.co_name)
    return trace


seen = set()
if KIND == "traced":
    sys.settrace(trace)
if KIND == "hooked":
    sys.excepthook = lambda kind, error, tb: print("my own word:", error, file=sys.stderr)
(changing if KIND == "changing" else plain)()
sys.settrace(None)
print("steps", steps, "train" in seen, flush=True)
if KIND == "leaves":
    os._exit(4)
if KIND == "exits":
    sys.exit("that is all")
if KIND == "hooked":
    raise RuntimeError("as it must")
