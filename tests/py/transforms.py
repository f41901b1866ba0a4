"""Transforms and collates that tests of loaders give to worker processes, which import them from here."""

import collections
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy

G = 24


def loader_of(lt, ds, fields=None, **more):
    """A loader for tests, with two workers where it has a transform."""
    fields = fields or {"x": lt.image("png").resize((16, 16)), "i": lt.index()}
    settings = {"batch_size": G, "as_numpy": True, "seed": 3}
    if "transform" in more or "collate" in more:
        settings["transform_workers"] = 2
    return lt.Loader(ds.url, fields=fields, **{**settings, **more})


Pair = collections.namedtuple("Pair", "index key")


def same(value):
    return value


def doubled(sample):
    return {**sample, "y": sample["y"] * 2, "pid": os.getpid()}


def in_place(sample):
    x, i = sample
    x += 1
    return x, i


def facts(sample):
    """What a transform sees of a sample, in words."""
    return {"seen": json.dumps({name: told(value) for name, value in sample.items()}, sort_keys=True)}


def told(value):
    if isinstance(value, memoryview):
        return ["bytes", bytes(value).hex()]
    if hasattr(value, "shape") and value.shape != ():
        return [type(value).__name__, str(value.dtype), list(value.shape), numpy.asarray(value.tolist()).sum().item()]
    return [type(value).__name__, value.item() if hasattr(value, "item") else value]


def told_columns(batch):
    return {name: json.dumps([told(v) for v in column]) for name, column in batch.items()}


def draws(sample):
    """Of everything that draws."""
    import leat  # here: tests choose which build of it they load

    (index,) = sample
    info = leat.sample_info()
    assert info.index == index
    return index, numpy.array([random.random(), numpy.random.random(), info.rng.random()]), info.seed % 2**31


def draws_of_torch(sample):
    import torch

    index, drawn, _ = draws(sample)
    return index, drawn, torch.rand(())


def nested(sample):
    x, i = sample
    return {"pair": Pair(i, str(int(i))), "list": [x.astype("f4"), 0.5], "text": "t" * int(i % 3)}


def as_lists(samples):
    return {"x": [x for x, _ in samples], "i": [int(i) for _, i in samples], "n": len(samples)}


class BadSample(Exception):
    pass


class FailsAt:
    """Raises, or does worse, at some samples."""

    def __init__(self, indices, how="raise"):
        self.indices = set(indices)
        self.how = how

    def __call__(self, sample):
        index = int(sample["i"])
        if index in self.indices:
            self.fail(index)
        return sample

    def fail(self, index):
        if self.how == "raise":
            raise BadSample(f"number {index} is bad")
        if self.how == "exit":
            sys.exit(3)
        if self.how == "_exit":
            os._exit(3)
        if self.how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "string":
            ctypes.string_at(0)
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "hang":
            time.sleep(1000)
        if self.how == "deaf":
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while True:
                time.sleep(1)


def fails_by_batch(batch):
    raise BadSample("all of it")


class Keeps:
    """Keeps what it is given."""

    def __init__(self):
        self.kept = []

    def __call__(self, sample):
        self.kept.append(sample[0])
        return sample


class Forks:
    """Forks at a sample: "return": the child returns into the transform's caller; "stay": it lives on; "exec": a program."""

    def __init__(self, how):
        self.how = how

    def __call__(self, sample):
        index = int(sample["i"])
        if index % 7 == 0 and self.how == "exec":
            subprocess.Popen(["sleep", "1234"])
        elif index % 7 == 0 and os.fork() == 0:
            while self.how == "stay":
                time.sleep(1)
        return sample


def slowly(sample):
    time.sleep(0.01)
    return sample


def uneven(sample):
    _, i = sample
    return numpy.zeros(int(i) % 2 + 1), i


def not_stackable(sample):
    return object()


def flipped(batch):
    return {**batch, "x": batch["x"][:, :, ::-1], "mean": batch["x"].mean(axis=(1, 2, 3))}


def channels_last(batch):
    import torch

    x = batch["x"].permute(0, 3, 1, 2)  # what is NHWC in memory
    return {"x": x, "half": x.to(torch.bfloat16), "f": numpy.asfortranarray(numpy.ones((3, 4)))}


class Unloadable:
    def __call__(self, sample):
        return sample

    def __setstate__(self, state):
        raise RuntimeError("not here")

    def __getstate__(self):
        return {"a": 1}
