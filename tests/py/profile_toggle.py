"""Puts the observer's hooks in place and takes them out again, in one process: what watching costs is the difference of two stretches of
steps that follow each other. Two runs differ by more than that."""

import sys

import torch
from torch import distributed
from torch.utils.data import DataLoader, dataloader
from torch.utils.data._utils import fetch

HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
PLACES = [
    (dataloader._BaseDataLoaderIter, "__next__"),
    (dataloader._MultiProcessingDataLoaderIter, "__init__"),
    (DataLoader, "_get_iterator"),
    (DataLoader, "__iter__"),
    (fetch._MapDatasetFetcher, "fetch"),
    (torch.autograd, "backward"),
    (torch.Tensor, "to"),
    (torch.Tensor, "cuda"),
    (distributed, "_broadcast_coalesced"),
    *[(sys.modules["torch.optim.optimizer"], name) for name in HOOKS],
]


def look():
    return [(*place, getattr(*place).copy() if place[1] in HOOKS else getattr(*place)) for place in PLACES]


def put(places):
    for whose, name, value in places:
        setattr(whose, name, value)


def start(observer, folder):
    """(the observer, what is there without its hooks, what is there with them)."""
    plain = look()
    sys.path.insert(0, observer)
    import observe

    sys.modules["_leat_observe"] = observe
    observe.start(folder)
    return observe, plain, look()


def empty(observe):
    """As if all records had been read."""
    for lane in observe.lanes.lanes:
        lane.words[observe.lanes.W_TAIL] = lane.head
