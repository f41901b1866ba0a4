"""What loaders do to each other, and chunks to batches: nobody gets another's failure, nothing that is there is withheld,
nothing is fetched twice that one fetch could serve."""

import collections
import json
import shutil
import signal
import subprocess
import threading

import pytest
from loading import SLOW, make_blobs, pack, point_to, smallest_budget, start_python, stopped, wait_until

MIB = 1 << 20
BATCH = 4


@pytest.fixture(scope="module")
def sequence(leat_bin, tmp_path_factory):
    """80 blobs in the order of their names, four to a chunk."""
    folder = tmp_path_factory.mktemp("sequence")
    known = make_blobs(folder / "files", 80, sizes=(15_000, 16_000))
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "64KiB", "--keep-order", known=known)


@pytest.fixture
def dataset(sequence, tmp_path):
    """A copy of it that a test may damage."""
    shutil.copytree(sequence.path, tmp_path / "served" / "bucket" / "ds")
    it = collections.namedtuple("Copy", "path served known chunks")
    return it(tmp_path / "served" / "bucket" / "ds", tmp_path / "served", sequence.known, sequence.chunks)


@pytest.fixture
def bucket(dataset, serve, monkeypatch):
    server = serve(dataset.served)
    point_to(server, monkeypatch)
    return server


class Hidden:
    """The chunk of a sample, away from the bucket."""

    def __init__(self, dataset, key):
        files = [path for path in (dataset.path / "leat" / "chunks").rglob("*") if path.is_file()]
        (self.path,) = [path for path in files if dataset.known[key][:200] in path.read_bytes()]
        self.aside = dataset.served.parent / "aside"
        self.path.rename(self.aside)

    def show(self):
        self.aside.rename(self.path)


def opened(lt, **more):
    options = {
        "batch_size": BATCH,
        "shuffle": False,
        "timeout": 60,
        "linger": "50ms",
        "fields": {"b": lt.bytes("bin"), "k": lt.key()},
        "as_numpy": True,
    }
    return lt.Loader("s3://bucket/ds", **{**options, **more})


def take(batches, known, n=None):
    """Keys of the next n batches, values compared."""
    seen = []
    while n is None or n > 0:
        batch = next(batches, None)
        if batch is None:
            break
        values, keys = batch
        for value, key in zip(values, keys.tolist()):
            assert bytes(value) == known[key]
            seen.append(key)
        n = n and n - 1
    return seen


def all_known(account):
    """Whether a chunk has failed, and everything that could be prepared is there."""
    return account["chunks_failed"] and not account["fetches_in_flight"]


STOPPED = """
import os, signal, sys, leat
loader = leat.Loader("s3://bucket/ds", batch_size=4, shuffle=False, timeout=60, fields={"k": leat.key()}, as_numpy=True)
seen = []
for (keys,) in loader:
    seen += keys.tolist()
    if len(seen) == 4:
        print("stopping", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
print(len(seen), len(set(seen)), flush=True)
"""


@pytest.mark.parametrize("sample", [9, 30, 79], ids=["its_next_batch", "planned", "fetched_ahead"])
def test_chunk_that_failed_for_a_stopped_loader_does_not_fail_for_others(
    lt, runtime, leat_bin, dataset, bucket, sample
):
    def of_agent():
        done = subprocess.run([leat_bin, "agent", "ls", "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    hidden = Hidden(dataset, f"{sample:04}.bin")
    process = start_python(runtime, STOPPED, **bucket.s3_env())
    try:
        assert process.stdout.readline() == "stopping\n"
        wait_until(lambda: all_known(of_agent()), what="the failure")
        hidden.show()
        with opened(lt) as other:
            assert take(iter(other), dataset.known) == sorted(dataset.known)
    finally:
        process.send_signal(signal.SIGCONT)
    out, stderr = process.communicate(timeout=60 * SLOW)
    if sample == 9:  # its own next batch: the bucket was asked on its behalf, and said no
        assert "NotFoundError" in stderr
    else:
        assert process.returncode == 0, stderr
        assert out == "80 80\n"


def test_error_of_a_later_batch_withholds_no_earlier_one_and_the_loader_goes_on_there(lt, runtime, dataset, bucket):
    hidden = Hidden(dataset, "0030.bin")
    with opened(lt) as loader:
        wait_until(lambda: all_known(loader.stats()), what="the failure")
        seen = []
        for _ in range(2):  # the loader stays there
            with pytest.raises(lt.Error, match="leat/chunks/"):
                for _, keys in loader:
                    seen += keys.tolist()
        assert seen == sorted(dataset.known)[:28]
        hidden.show()
        assert seen + take(iter(loader), dataset.known) == sorted(dataset.known)


def test_failed_chunk_of_one_dataset_does_not_concern_another(lt, runtime, dataset, bucket):
    shutil.copytree(dataset.path, dataset.served / "bucket" / "whole")
    Hidden(dataset, "0050.bin")
    with opened(lt) as broken:
        wait_until(lambda: all_known(broken.stats()), what="the failure")
        with lt.Loader("s3://bucket/whole", batch_size=4, fields={"k": lt.key()}, as_numpy=True) as whole:
            assert sum(len(keys) for (keys,) in whole) == 80
            assert sum(len(keys) for (keys,) in whole) == 80
        batches = iter(broken)
        assert len(take(batches, dataset.known, 12)) == 48
        del batches


def chunk_gets(server):
    return collections.Counter(line["key"] for line in server.log() if "leat/chunks/" in line.get("key", ""))


def test_two_addresses_of_the_same_chunks_share_them(lt, runtime, dataset, bucket):
    shutil.copytree(dataset.path, dataset.served / "bucket" / "copy")
    options = {"batch_size": 4, "timeout": 30, "fields": {"k": lt.key()}, "as_numpy": True, "seed": 5}
    with lt.Loader("s3://bucket/ds", **options) as one, lt.Loader("s3://bucket/copy", **options) as two:
        for _ in range(2):
            for (a,), (b,) in zip(one, two):
                assert a.tolist() == b.tolist()
    names = collections.Counter(key.rsplit("/", 1)[1] for key in chunk_gets(bucket).elements())
    assert len(names) == dataset.chunks
    assert max(names.values()) == 1, "fetched once, for whichever of them"


@pytest.mark.parametrize("room", [1.5, pytest.param(3, marks=pytest.mark.long)])
def test_one_sample_a_chunk_is_fetched_once_an_epoch(lt, leat_bin, runtime, serve, tmp_path, monkeypatch, room):
    make_blobs(tmp_path / "files", 90, sizes=(90_000, 110_000))
    packed = pack(leat_bin, tmp_path / "files", tmp_path / "served" / "bucket" / "ds", "--chunk-size", "64KiB")
    assert packed.chunks == 90
    server = serve(tmp_path / "served", "--bandwidth", "60MB/s")
    point_to(server, monkeypatch)
    options = {"batch_size": 8, "window": 16, "last": "short", "timeout": 60}
    fields = {"b": lt.bytes("bin")}
    least = smallest_budget(lt, "s3://bucket/ds", fields=fields, **options)
    runtime.wait_gone()
    with lt.Loader("s3://bucket/ds", ram=int(room * least), fields=fields, as_numpy=True, **options) as loader:
        fetched = []
        for _ in range(4):
            before = sum(chunk_gets(server).values())
            assert sum(len(values) for (values,) in loader) == 90
            fetched.append(sum(chunk_gets(server).values()) - before)
    assert sum(fetched) <= 4.4 * 90, fetched
    assert max(fetched[1:]) <= 1.3 * 90, "the first has its successor's beginning too"


def test_budget_smaller_than_the_window_is_said(lt, runtime, sequence):
    options = {"batch_size": 4, "window": 18, "fields": {"k": lt.key()}, "as_numpy": True}
    with lt.Loader(sequence.url, ram=MIB // 2, **options) as loader:
        assert sum(len(keys) for (keys,) in loader) == 80
    assert "does not hold" in runtime.log()
    assert "smaller window" in runtime.log()
    runtime.wait_gone()
    with lt.Loader(sequence.url, ram=16 * MIB, **options) as loader:
        next(iter(loader))
    assert runtime.log().count("does not hold") == 1


def test_bucket_that_is_down_stops_nothing_that_is_cached(lt, runtime, dataset, bucket):
    with opened(lt, shuffle=True) as loader:
        assert len(take(iter(loader), dataset.known)) == 80
        wait_until(lambda: not loader.stats()["fetches_in_flight"], what="the last chunk")
        with stopped(bucket.process.pid):  # who asks it for anything ends at the deadline, with an error
            for _ in range(3):
                assert sorted(take(iter(loader), dataset.known)) == sorted(dataset.known)


def test_bucket_that_goes_away_lets_out_what_came_then_names_itself_then_goes_on(lt, runtime, dataset, bucket):
    timeout = 2 * SLOW
    with opened(lt, timeout=timeout, ram=MIB // 2) as loader:
        batches = iter(loader)
        seen = take(batches, dataset.known, 2)
        wait_until(lambda: loader.stats()["batches_ready"] > 0, what="a batch beyond those")
        with stopped(bucket.process.pid), pytest.raises(TimeoutError, match=rf"within {timeout} s.*s3://bucket/ds"):
            while True:
                more = take(batches, dataset.known, 1)
                assert more, "all of it came before the bucket went away"
                seen += more
        assert 8 < len(seen) < 80
        assert seen + take(iter(loader), dataset.known) == sorted(dataset.known)


OPEN_LARGE = """
import sys, leat
url, batch = sys.argv[1], int(sys.argv[2])
for seed in range(3):
    print("opening", flush=True)
    sys.stdin.readline()
    with leat.Loader(url, batch_size=batch, seed=seed, fields={"i": leat.index()}, as_numpy=True, timeout=100) as loader:
        (i,) = next(iter(loader))
        print("open", flush=True)
        assert len(i) == batch
"""


@pytest.mark.long
def test_opening_of_a_large_batch_over_many_chunks_stops_nobody(lt, leat_bin, runtime, sequence, shm_path):
    """The agent's loop must never be busy for long: else all others' batches wait for it."""
    count = 40_000
    (shm_path / "files").mkdir()
    for i in range(count):
        (shm_path / "files" / f"{i:06}.bin").write_bytes(b"%d" % i)
    many = pack(leat_bin, shm_path / "files", shm_path / "ds", "--chunk-size", "4KiB")
    assert many.chunks > 250
    taken, ended = [0], threading.Event()

    def train():
        with lt.Loader(sequence.url, batch_size=1, slots=2, fields={"k": lt.key()}, as_numpy=True) as loader:
            while not ended.is_set():
                for _ in loader:
                    taken[0] += 1

    thread = threading.Thread(target=train)
    thread.start()
    process = start_python(runtime, OPEN_LARGE, many.url, count * 2 // 3)
    during = []
    for line in process.stdout:
        if line == "opening\n":
            wait_until(lambda before=taken[0]: taken[0] > before, what="a batch")
            before = taken[0]
            process.stdin.write("\n")
            process.stdin.flush()
        else:
            during.append(taken[0] - before)
    stderr = process.stderr.read()
    ended.set()
    thread.join()
    assert process.wait() == 0, stderr
    process.communicate()
    assert min(during) > 2 * 2, "no more than were ready: the agent was busy with the opening all the while"
