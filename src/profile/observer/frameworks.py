"""What frameworks and loaders need beyond torch's own DataLoader: accelerate, leat.Loader, training loops that count, processes of
multiprocessing."""

import functools
import os
import sys
import weakref

lanes = sys.modules["_leat_lane"]
now = lanes.now
observe = None  # the module that follows torch, once it is whole


def follow_accelerate(module):
    """Its loaders take a batch more than they give out, to know the last one: what the script waits for is theirs."""

    def follow(kind, again):
        plain = kind.__iter__

        @functools.wraps(plain)
        def watched(self):
            def place(batch):
                device = getattr(self, "device", None)
                return batch if device is None else module.send_to_device(batch, device)

            inner = getattr(self, "base_dataloader", self)
            return observe.Replayed(observe.begin_epoch(inner, functools.partial(plain, self)), inner, again, place)

        kind.__iter__ = watched

    follow(module.DataLoaderShard, True)
    follow(module.DataLoaderDispatcher, False)  # one rank reads for all


def follow_counting(kind, name, whose):
    """A training loop that counts batches itself would take replayed ones out of its epochs."""
    plain = getattr(kind, name)

    @functools.wraps(plain)
    def call(*args, **kwargs):
        if observe._replayer:
            why = f"no differential runs: {whose} counts its batches itself, and would train on fewer"
            observe._replayer[0].end(why)
        return plain(*args, **kwargs)

    setattr(kind, name, call)


class Account:
    """What the agent tells of a leat.Loader, from one batch to the next."""

    EVERY = 8  # batches: what came from where

    def __init__(self, loader):
        self.stats = weakref.WeakMethod(loader.stats)
        self.ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))  # they share an agent, which counts for all
        self.told = loader.stats()
        nothing = {name: dict.fromkeys(self.told[name], 0) for name in ("bytes_by_source", "wait_by_cause_s")}
        self.since, self.began, self.batches = nothing, now(), 0  # it fetches from its opening on

    def __call__(self, number, start):
        """After a wait for a batch that began then."""
        before, self.told = self.told, self.stats()()
        cause, was = self.told["wait_by_cause_s"], before["wait_by_cause_s"]
        fetched, prepared = (max(0, int((cause[name] - was[name]) * 1e9)) for name in ("fetch", "prep"))
        lanes.lane().write(lanes.FETCH, start, start + fetched + prepared, number, prepared, 0, lanes.ACCOUNTED)
        self.batches += 1
        if self.batches == self.EVERY:
            self.tell_sources(number)

    def tell_sources(self, number):
        at, told, since = now(), self.told, self.since
        came = {name: max(0, size - since["bytes_by_source"][name]) for name, size in told["bytes_by_source"].items()}
        waited = int((told["wait_by_cause_s"]["fetch"] - since["wait_by_cause_s"]["fetch"]) * 1e9)
        for extra, name in enumerate(("bucket", "disk")):
            # What was waited for is what limits: then the time is the source's.
            most = came[name] > 0.9 * (sum(came.values()) - came["ram"]) and waited > (at - self.began) / 4
            length = at - self.began if most else 0
            size = came[name] // self.ranks
            lanes.lane().write(lanes.SOURCE, at - length, at, number, size, extra, self.batches)
        self.since, self.began, self.batches = told, at, 0


def follow_leat(module):
    kind = module.Loader
    plain = kind.__iter__
    accounts = weakref.WeakKeyDictionary()

    def watched(self):
        if observe._replayer:
            observe._replayer[0].end("no differential runs: leat.Loader's own account says what its batches waited for")
        made = plain(self)
        if self not in accounts:
            accounts[self] = Account(self)
        found = observe.Watched(made, observe.number_of(self), accounts[self])
        found.whose = self  # a script that iterates over a loader need not keep it
        return found

    kind.__iter__ = watched


def follow_processes(module):
    """An exception ends a process of multiprocessing with a status, and not with the interpreter's own handling."""
    plain = module.BaseProcess._bootstrap

    def bootstrap(self, *args, **kwargs):
        status = plain(self, *args, **kwargs)
        if status:
            lanes.end(lanes.RAISED)
        return status

    module.BaseProcess._bootstrap = bootstrap
