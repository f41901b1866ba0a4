"""`leat profile` and scripts with several loaders: the numbers are of those that train."""

import sys

import pytest
from test_profile import left_behind, profile  # noqa: F401

pytest.importorskip("torch")

HEAD = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)

class Rows(Dataset):
    def __init__(self, n, seconds=0.0):
        self.n, self.seconds = n, seconds

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return torch.ones(4), i % 2

net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

def train(*batches):
    optimizer.zero_grad()
    sum(torch.nn.functional.cross_entropy(net(x), y) for x, y in batches).backward()
    optimizer.step()
"""
VALIDATES = """
rows, other = DataLoader(Rows(80), batch_size=2, num_workers=2), DataLoader(Rows(12), batch_size=4)
next(iter(other))
for epoch in range(3):
    for batch in rows:
        train(batch)
    with torch.set_grad_enabled(len(sys.argv) > 1):
        for x, y in other:
            net(x)
"""
SIDE_BY_SIDE = """
for batches in zip(DataLoader(Rows(120, 0.004), batch_size=2), DataLoader(Rows(400, 0.001), batch_size=4)):
    train(*batches)
"""
CHANGES = """
for workers in 0, 2:
    for batch in DataLoader(Rows(60), batch_size=2, num_workers=workers):
        train(batch)
"""


@pytest.mark.parametrize("gradients", [[], ["gradients"]])
def test_a_loader_of_validation_is_not_taken_for_the_one_that_trains(profile, gradients):  # noqa: F811
    done, report = profile(command=[sys.executable, "-c", HEAD + VALIDATES, *gradients])
    run = report["runs"][0]
    assert (run["workers"], run["dataset_samples"], run["batch"]) == (2, 80, 2)
    said = [note for note in report["notes"] if "each beginning of an epoch" in note]
    assert all("of 40 steps" in note for note in said), done.stderr
    assert not any("loaders with" in note for note in report["notes"])


def test_loaders_side_by_side_add_up(profile):  # noqa: F811
    """A step takes a batch of each: 2 samples of 4 ms and 4 of 1 ms. Sleeps are never shorter."""
    done, report = profile(command=[sys.executable, "-c", HEAD + SIDE_BY_SIDE])
    run = report["runs"][0]
    assert run["fetch_s"] + run["prepare_s"] >= 0.012
    assert run["fetch_s"] + run["prepare_s"] <= run["step_s"][0]
    assert (run["batch"], run["dataset_samples"]) == (4, 400)
    assert run["parts_s"]["fetch"] + run["parts_s"]["prepare"] >= 0.011, done.stderr


def test_a_loader_that_changes_is_said(profile):  # noqa: F811
    _, report = profile(command=[sys.executable, "-c", HEAD + CHANGES])
    assert any("loaders with 0 and with 2 workers" in note for note in report["notes"])
