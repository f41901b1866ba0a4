"""A training with many workers, batches ahead and short epochs, for test_profile_epochs.py: all of it sleeps, so that what a step
takes is known on any machine. Prints what its epochs really took, and how many batches its workers began while batches came that
had been there before in the epoch. The argument is JSON."""

import json
import os
import sys
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

WISH = {
    "workers": 8, "ahead": 4, "batch_s": 0.16, "compute_s": 0.01, "steps": 64, "epochs": 6, "start_s": 0.5, "persistent": True,
    "context": None, "stop": 0, "log": "",
}  # fmt: skip
WISH |= json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
BATCH = 8
torch.set_num_threads(1)
warnings.simplefilter("ignore")  # DataLoader's, of more workers than cores


def prepare(x):
    time.sleep(WISH["batch_s"] / BATCH)
    return x


class Slow(Dataset):
    def __init__(self):
        self.transform = prepare

    def __len__(self):
        return BATCH * WISH["steps"]

    def __getitem__(self, i):
        if WISH["log"] and i % BATCH == 0:
            with open(WISH["log"], "a") as log:
                log.write(f"{time.monotonic()} {os.getpid()}\n")
        return self.transform(torch.ones(4)), i


def begun_in(stretches):
    """Batches that the loader's own workers, which persist, began in these times."""
    with open(WISH["log"]) as log:
        rows = [(float(at), int(pid)) for at, pid in map(str.split, log)]
    own = list(dict.fromkeys(pid for _, pid in rows))[: WISH["workers"]]
    return sum(any(a < at < b for a, b in stretches) and pid in own for at, pid in rows)


def main():
    more = {"prefetch_factor": WISH["ahead"], "persistent_workers": WISH["persistent"]} if WISH["workers"] else {}
    loader = DataLoader(
        Slow(), batch_size=BATCH, num_workers=WISH["workers"], multiprocessing_context=WISH["context"], **more
    )
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    ends = [time.perf_counter()]
    again = []  # from when to when batches came again
    for epoch in range(WISH["epochs"]):
        newest, before = -1, False
        for i, (x, y) in enumerate(loader):
            at, old = time.monotonic(), int(y[0]) <= newest
            if old:
                again[-1:] = [*again[-1:], [at, at]] if not before else [[again[-1][0], at]]
            newest, before = max(newest, int(y[0])), old
            time.sleep(WISH["compute_s"] + (WISH["start_s"] if epoch + i == 0 else 0))  # as if it were compiled
            loss = torch.nn.functional.cross_entropy(net(x), y % 3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i + 1 == WISH["stop"]:
                break
        ends.append(time.perf_counter())
    took = [(b - a) / WISH["steps"] for a, b in zip(ends, ends[1:], strict=False)]
    said = {"epochs_step_s": took, "again": len(again)}
    print(json.dumps(said | ({"begun": begun_in(again)} if WISH["log"] else {})))


if __name__ == "__main__":
    main()
