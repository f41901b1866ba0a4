"""Where the bytes of a step come from, in the report of `leat profile`: by leat.Loader's own account, and by the sockets of a dataset
that asks a bucket itself."""

import random

import pytest
from conftest import BUILD
from profiling import parts

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.python_only

SIZE, BATCH, COUNT = 100_000, 4, 160
MODEL = """
import torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(2, 4)).sum().backward()  # all that torch makes at the first time: else the loader would be ahead by then
optimizer.step()
"""
TRAIN = """
for batch in batches:
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("done")
"""
LEAT = """
import sys
sys.path.insert(0, sys.argv[2])
import leat
# Little room: else all of it could be there before a busy machine has made its first step.
batches = leat.Loader(sys.argv[1], batch_size=4, fields={"x": leat.bytes("bin")}, last="drop", shuffle=False, ram="4MB")
"""
OWN = """
import http.client, sys
from torch.utils.data import DataLoader, Dataset
host, _, path = sys.argv[1].removeprefix("http://").partition("/")
class Objects(Dataset):
    def __len__(self): return 160
    def __getitem__(self, i):
        if not hasattr(self, "line"):
            self.line = http.client.HTTPConnection(host)
        self.line.request("GET", f"/{path}/{i:04}.bin")
        return len(self.line.getresponse().read())
batches = DataLoader(Objects(), batch_size=4, num_workers=1)
"""


@pytest.fixture
def objects(bucket_dir):
    draw = random.Random(1)
    folder = bucket_dir / "bucket" / "raw"
    folder.mkdir(parents=True)
    for i in range(COUNT):
        (folder / f"{i:04}.bin").write_bytes(draw.randbytes(SIZE))
    return folder


def test_leats_loader_tells_what_came_from_the_bucket_and_how_fast(profile, serve, objects, run_leat, runtime):
    run_leat("pack", objects, objects.parent / "packed", "--chunk-size", "1MB", status=0)
    server = serve(objects.parent.parent, "--bandwidth", "3MB/s")
    program = ["-c", MODEL + LEAT + TRAIN, "s3://bucket/packed", BUILD / "python"]
    done, report = profile(None, "--time", "5s", program=program, env=runtime.env | server.s3_env())
    run = report["runs"][0]
    assert done.stdout == "done\n"
    assert "leat.Loader's own account" in done.stderr
    # All comes in the first epoch, some of it ahead of the batch that needs it.
    assert 0.5 < run["bucket_read_bytes"] / (SIZE * BATCH) < 1.5
    # The bucket needs 133 ms for a batch. What of it the training itself takes, on a busy machine much, it does not wait; and what it
    # waits is for the bucket.
    split = parts(report)
    assert split["fetch"] > split["prepare"] + split["input"]
    if split["fetch"] > 0.4:  # then it was what the loader waited for, at least for eight batches in a row
        assert 0 < run["bucket_rate"] < 4e6


def test_a_script_need_not_keep_its_loader(profile, objects, run_leat, runtime):
    """As in `for batch in leat.Loader(…)`: the iterator is all that there is."""
    run_leat("pack", objects, objects.parent / "packed", "--chunk-size", "1MB", status=0)
    script = MODEL + LEAT + "batches = iter(batches)" + TRAIN
    program = ["-c", script, objects.parent / "packed", BUILD / "python"]
    done, report = profile(program=program, env=runtime.env)
    assert done.stdout == "done\n" and report["runs"][0]["steps"] > 0


def test_what_a_dataset_gets_through_sockets_of_its_own_is_counted(profile, serve, objects):
    server = serve(objects.parent.parent, "--anonymous", "--latency", "3ms")
    done, report = profile(program=["-c", MODEL + OWN + TRAIN, f"{server.url}/bucket/raw"])
    run = report["runs"][0]
    assert done.stdout == "done\n"
    assert run["bucket_read_bytes"] == pytest.approx(SIZE * BATCH, rel=0.1)
    assert 0 < run["bucket_rate"] < SIZE / 0.003  # the server keeps its latency
