"""`leat profile` and scripts with several loaders: the numbers are of those that train."""

import pytest
from conftest import BUILD, SANITIZE

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
def test_a_loader_of_validation_is_not_taken_for_the_one_that_trains(profile, gradients):
    done, report = profile(program=["-c", HEAD + VALIDATES, *gradients])
    run = report["runs"][0]
    assert (run["workers"], run["dataset_samples"], run["batch"]) == (2, 80, 2)
    said = [note for note in report["notes"] if "each beginning of an epoch" in note]
    assert all("of 40 steps" in note for note in said), done.stderr
    assert not any("loaders with" in note for note in report["notes"])


def test_loaders_side_by_side_add_up(profile):
    """A step takes a batch of each: 2 samples of 4 ms and 4 of 1 ms. Sleeps are never shorter."""
    done, report = profile(program=["-c", HEAD + SIDE_BY_SIDE])
    run = report["runs"][0]
    assert run["fetch_s"] + run["prepare_s"] >= 0.012
    assert run["fetch_s"] + run["prepare_s"] <= run["step_s"][0]
    assert (run["batch"], run["dataset_samples"]) == (4, 400)
    assert run["parts_s"]["fetch"] + run["parts_s"]["prepare"] >= 0.011, done.stderr


def test_a_loader_that_changes_is_said(profile):
    _, report = profile(program=["-c", HEAD + CHANGES])
    assert any("loaders with 0 and with 2 workers" in note for note in report["notes"])


TOUCHY = """
class Touchy(Rows):
    def __getattr__(self, name):
        if name == "__getitems__":  # torch does
            raise AttributeError(name)
        raise RuntimeError(f"nobody asks me for {name}")

class Mixed(torch.utils.data.IterableDataset):
    def __init__(self):
        self.datasets = iter([range(50), range(50, 100)])  # is used up by a look at it
        self.transform = lambda i: torch.full((4,), float(i))

    def __iter__(self):
        for numbers in self.datasets:
            for i in numbers:
                yield self.transform(i), i % 2

rows, mixed = Touchy(60), Mixed()
rows.datasets, own = 5, mixed.transform
total = 0.0
for dataset in rows, mixed:
    for batch in DataLoader(dataset, batch_size=2):
        train(batch)
        total += float(batch[0].sum())
        assert mixed.transform is own
print(total)
"""
BATCHES = """
class Pictures(Rows):
    def __getitem__(self, i):
        return torch.zeros(3, 8, 8), {"boxes": torch.zeros(i % 5, 4)}

class Texts(Rows):
    def __getitem__(self, i):
        return f"text {i}"

def stacked(batch):
    return torch.zeros(100, len(batch), 2)

kind = sys.argv[1]
dataset = {"pictures": Pictures, "time": Rows, "texts": Texts, "last": Rows}[kind](24 if kind == "last" else 480)
collate = {"pictures": lambda batch: tuple(zip(*batch)), "time": stacked}.get(kind)
for _ in range(16 if kind == "last" else 2):
    for _ in DataLoader(dataset, batch_size=20 if kind != "last" else 16, collate_fn=collate):
        train((torch.ones(4, 4), torch.zeros(4, dtype=torch.long)))
"""


def test_a_dataset_is_not_asked_for_what_it_need_not_have(profile):
    """One whose __getattr__ raises, one whose parts are an iterator, and a transform that is the script's own where it looks."""
    done, report = profile(program=["-c", HEAD + TOUCHY])
    assert float(done.stdout) == 60 * 4 + 4 * sum(range(100))
    assert report["runs"][0]["steps"] > 60


@pytest.mark.parametrize(
    ("kind", "samples", "size"),
    [("pictures", 20, 20 * 3 * 64 * 4 + 40 * 16), ("time", 20, 100 * 20 * 2 * 4), ("texts", 20, 0), ("last", 12, 0)],
)
def test_a_batch_has_as_many_samples_as_the_loader_puts_together(profile, kind, samples, size):
    _, report = profile(program=["-c", HEAD + BATCHES, kind])
    assert report["runs"][0]["batch"] == pytest.approx(samples, abs=0.2)
    assert kind == "last" or report["runs"][0]["batch_bytes"] == pytest.approx(size, rel=0.05)


WATCHED = f"""
sys.path.insert(0, {str(BUILD / "python")!r})
import leat
watch = leat.watch(DataLoader(Rows(80, 0.004), batch_size=2), every=0)
for batch in watch:
    train(batch)
print(watch.steps, watch.wait_s > 40 * 0.008, watch.total_s > watch.wait_s)
"""


@pytest.mark.skipif(bool(SANITIZE), reason="the script's Python would need the sanitizer's runtime")
def test_a_watched_loader_is_followed_as_it_is_without(profile):
    """It says of itself what it says elsewhere, and the report still tells fetching from preparing."""
    done, report = profile(program=["-c", HEAD + WATCHED])
    assert done.stdout == "40 True True\n"
    assert report["runs"][0]["fetch_s"] >= 0.008
    assert "leat: fetch: " in done.stderr
    assert "waiting for data" not in done.stderr


RANKS = """
import torch.distributed
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
net = torch.nn.parallel.DistributedDataParallel(net)
for batch in DataLoader(Rows(100, 0.001 + 0.009 * rank), batch_size=2, num_workers=1):
    train(batch)
torch.distributed.destroy_process_group()
"""


def test_a_batch_takes_what_it_takes_on_the_rank_that_the_others_wait_for(profile, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(HEAD + RANKS)
    done, report = profile(program=[script], ranks=2)
    run = report["runs"][0]
    assert run["fetch_s"] >= 0.02, done.stderr  # 2 samples of 10 ms; rank 0 takes a tenth of it
    assert run["fetch_s"] + run["prepare_s"] <= 2 * run["step_s"][0]
    assert "they would keep up" not in done.stderr


ONE_EPOCH = """
for batch in DataLoader(Rows(600, 0.002), batch_size=2, num_workers=2):
    train(batch)
"""


def test_one_epoch_that_waits_for_its_workers_counts(profile):
    """A queue says that a batch is there as soon as a worker sends it: no batch may ever seem to be missing."""
    done, report = profile(program=["-c", HEAD + ONE_EPOCH])
    assert report is not None, done.stderr
    assert report["runs"][0]["steps"] >= 250
