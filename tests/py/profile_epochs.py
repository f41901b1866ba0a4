"""A training with many workers, batches ahead and short epochs, for test_profile_epochs.py: all of it sleeps, so that what a step
takes is known on any machine. Prints what its epochs really took. The argument is JSON."""

import json
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

WISH = {
    "workers": 8, "ahead": 4, "batch_s": 0.16, "compute_s": 0.01, "steps": 64, "epochs": 6, "start_s": 0.5, "persistent": True,
    "context": None, "stop": 0,
}  # fmt: skip
WISH |= json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
BATCH = 8
torch.set_num_threads(1)


def prepare(x):
    time.sleep(WISH["batch_s"] / BATCH)
    return x


class Slow(Dataset):
    def __init__(self):
        self.transform = prepare

    def __len__(self):
        return BATCH * WISH["steps"]

    def __getitem__(self, i):
        return self.transform(torch.ones(4)), i % 3


def main():
    more = {"prefetch_factor": WISH["ahead"], "persistent_workers": WISH["persistent"]} if WISH["workers"] else {}
    loader = DataLoader(
        Slow(), batch_size=BATCH, num_workers=WISH["workers"], multiprocessing_context=WISH["context"], **more
    )
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    ends = [time.perf_counter()]
    for epoch in range(WISH["epochs"]):
        for i, (x, y) in enumerate(loader):
            time.sleep(WISH["compute_s"] + (WISH["start_s"] if epoch + i == 0 else 0))  # as if it were compiled
            loss = torch.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i + 1 == WISH["stop"]:
                break
        ends.append(time.perf_counter())
    took = [(b - a) / WISH["steps"] for a, b in zip(ends, ends[1:], strict=False)]
    print(json.dumps({"first_s": took[0], "step_s": sum(took[1:]) / max(1, len(took) - 1)}))


if __name__ == "__main__":
    main()
