"""Memory runs out in the agent and in the rank, at any allocation: batches are exact or the error is typed, nobody hangs,
and the agent lives."""

import collections
import itertools
import mmap
import os
import struct
import subprocess

import pytest
from conftest import SANITIZE, assert_no_report
from etcd_box import etcd
from loading import SLOW, wait_until

__all__ = ["etcd"]

G = 24
BUDGET = "700kb"  # less than two datasets of images: some chunks have to go

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="ThreadSanitizer's own allocations would fail as well")


class Memory:
    """What tests/unit/no_memory.c shares with us."""

    def __init__(self, path):
        path.write_bytes(struct.pack("4q", 0, 0, 0, 0))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 32)

    def read(self, i):
        return struct.unpack_from("q", self.map, 8 * i)[0]

    def write(self, i, value):
        struct.pack_into("q", self.map, 8 * i, value)

    def seen(self):
        return self.read(0)

    def fail(self, after, count):
        """The allocations after the next `after` fail, `count` of them."""
        self.write(3, 0)
        self.write(1, self.seen() + after)
        self.write(2, count)

    def recover(self):
        """All succeed again; how many have failed."""
        self.write(2, 0)
        return self.read(3)


def preload(leat_build, path):
    """The environment in which allocations can be made to fail."""
    env = {"LD_PRELOAD": str(leat_build / "tests" / "unit" / "libno_memory.so"), "LEAT_TEST_NO_MEMORY": str(path)}
    if SANITIZE:
        env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return env


@pytest.fixture
def memory(runtime, leat_build, leat_bin, tmp_path, monkeypatch):
    """An agent whose memory is ours to take away."""
    control = tmp_path / "memory"
    it = Memory(control)
    wrapper = tmp_path / "leat"
    lines = [f"export {name}={value!r}" for name, value in preload(leat_build, control).items()]
    wrapper.write_text("\n".join(["#!/bin/sh", *lines, f'exec {leat_bin} "$@"', ""]))
    wrapper.chmod(0o755)
    monkeypatch.setenv("LEAT_AGENT", str(wrapper))
    monkeypatch.setenv("LEAT_LINGER", "60s")
    yield it
    it.recover()


def epoch(lt, url, **more):
    fields = {"i": lt.index(), "x": lt.image("png").random_resized_crop(16), "b": lt.bytes("png"), "k": lt.key()}
    options = {"batch_size": G, "slots": 2, "ram": BUDGET, "timeout": 60, "as_numpy": True, **more}
    with lt.Loader(url, fields=fields, **options) as loader:
        loader.stats()
        return [(i.tolist(), x.tobytes(), b.tolist(), list(k)) for i, x, b, k in loader]


@pytest.fixture(params=["file", "bucket"])
def fresh_epoch(request, lt, memory, images, tmp_path, in_bucket):
    """fresh_epoch() reads the images by a name that the agent has not seen before: nothing is there already."""
    names = itertools.count()
    if request.param == "bucket":
        in_bucket(images)
        return lambda: epoch(lt, "s3://bucket/ds", region=f"region-{next(names)}")

    def read():
        link = tmp_path / f"{next(names)}"
        link.symlink_to(images.path)
        return epoch(lt, link)

    return read


class Other:
    """Another loader of the same agent: what it is given follows on what it had, error or not."""

    def __init__(self, lt, images):
        self.errors = lt.Error
        self.loader = lt.Loader(
            images.url, batch_size=3, slots=2, shuffle=False, ram=BUDGET, timeout=60, fields={"i": lt.index()}
        )
        self.batches = iter(self.loader)
        self.whole = images.samples // 3 * 3
        self.position = 0

    def go_on(self):
        for _ in range(5):
            try:
                (numbers,) = next(self.batches, (None,))
            except self.errors as error:
                assert type(error).__name__ in ("OutOfMemoryError", "LimitError", "NetworkError"), error
                continue
            if numbers is None:
                assert self.position == self.whole
                self.position = 0
                self.batches = iter(self.loader)
            else:
                assert numbers.tolist() == list(range(self.position, self.position + 3))
                self.position += 3


def starve(lt, runtime, memory, read, images, times):
    """Opens, reads and closes, each time with memory lacking from another allocation of the agent's on."""
    whole = read()
    other = Other(lt, images)
    before = memory.seen()
    assert read() == whole
    allocations = memory.seen() - before
    pid = runtime.agent()
    outcomes = collections.Counter()
    for n in range(times):
        after = n * allocations // times
        memory.fail(after, (1, 1, 2, 1, 10)[n % 5])
        other.go_on()
        try:
            assert read() == whole, f"without the allocation {after}"
            outcome = "exact"
        except lt.Error as error:
            outcome = type(error).__name__
        other.go_on()
        outcomes[outcome if memory.recover() else "untouched"] += 1
        assert outcome in ("exact", "OutOfMemoryError", "LimitError", "NetworkError"), f"{outcome} without {after}"
        # a rank whose connection was closed may have started a second one, which sees the lock and ends
        wait_until(
            lambda: runtime.agents() == [pid], what=f"{outcome} without the allocation {after}: the same agent alone"
        )
    assert read() == whole
    assert outcomes["OutOfMemoryError"] > times // 5, outcomes
    assert outcomes["untouched"] < times // 2, outcomes


def test_agent_without_memory_lives_and_delivers_exactly_or_says_so(lt, runtime, memory, fresh_epoch, images):
    starve(lt, runtime, memory, fresh_epoch, images, 60)


def test_agent_that_starts_without_memory_says_so(lt, runtime, memory, images, monkeypatch):
    monkeypatch.setenv("LEAT_LINGER", "0s")
    whole = epoch(lt, images.url)
    runtime.wait_gone()
    memory.write(0, 0)
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}):
        allocations = memory.seen()
    outcomes = collections.Counter()
    for after in range(0, allocations, allocations // 15):
        runtime.wait_gone()
        memory.write(0, 0)
        memory.fail(after, 1)
        try:
            assert epoch(lt, images.url) == whole
            outcomes["exact"] += 1
        except lt.Error as error:
            outcomes[type(error).__name__] += 1
    assert outcomes["OutOfMemoryError"], outcomes
    assert outcomes.keys() <= {"exact", "OutOfMemoryError", "LimitError"}, outcomes
    runtime.wait_gone()
    assert runtime.left_behind() == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_agent_without_memory_at_any_allocation_lives(lt, runtime, memory, fresh_epoch, images):
    starve(lt, runtime, memory, fresh_epoch, images, 4000)


def test_rank_without_memory_delivers_exactly_or_says_so(lt, runtime, leat_build, images, tmp_path):
    """The C example, which says what is wrong in one line."""
    memory = Memory(tmp_path / "memory")
    env = {**runtime.env, **preload(leat_build, tmp_path / "memory")}
    command = [leat_build / "examples" / "example_read_batches", images.url, "20"]

    def run():
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30 * SLOW)
        assert_no_report("the example", done.returncode, done.stderr)
        return done

    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}):  # its agent has memory
        whole = run()
        assert whole.returncode == 0, whole.stderr
        stateless = "".join(line for line in whole.stdout.splitlines(True) if not line.startswith("state:"))
        allocations = memory.seen()
        refused = 0
        for after in range(0, allocations, 1 if not SANITIZE else 7):
            memory.write(0, 0)  # counted from the beginning of the process
            memory.fail(after, 1)
            done = run()
            if done.returncode == 0:
                assert done.stdout in (whole.stdout, stateless), f"without the allocation {after}"
            else:
                assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, f"{after}: {done.stderr}"
                refused += "memory" in done.stderr
        assert refused > 10


@pytest.mark.parametrize("times", [20, pytest.param(300, marks=pytest.mark.long)])
def test_agent_that_enters_a_job_without_memory_lives(times, lt, runtime, memory, images, etcd):
    """Each time another job: a lease, a look, an entry, a watch and a door, of which some allocation fails."""
    box = etcd()
    names = itertools.count()

    def read():
        return epoch(lt, images.url, job=box.url(f"job{next(names)}"))

    whole = read()
    before = memory.seen()
    assert read() == whole
    allocations = memory.seen() - before
    pid = runtime.agent()
    failed = 0
    for n in range(times):
        memory.fail(n * allocations // times, (1, 3, 20)[n % 3])
        try:
            assert read() == whole
        except lt.Error as error:
            assert type(error).__name__ in ("OutOfMemoryError", "LimitError", "NetworkError"), error
        failed += memory.recover() > 0
        wait_until(lambda: runtime.agents() == [pid], what="the same agent alone")
    assert failed > times // 2
    assert read() == whole
    last = f"job{next(names) - 1}"
    wait_until(lambda: len(box.alive(last)) == 1, what="the last job to be entered")
