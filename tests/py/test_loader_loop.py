"""The agent's event loop serves all loaders: what is large is copied, mapped and given back by other threads."""

import mmap
import os
import struct

import pytest
from conftest import SANITIZE
from loading import pack
from token_data import Tokens, documents

MIB = 1 << 20
KINDS = ("copied", "freed", "unmapped", "shared")

pytestmark = pytest.mark.skipif(bool(SANITIZE), reason="a sanitizer has its own functions in these places")


class Watched:
    """What tests/unit/loop_watch.c counts: bytes, by kind."""

    def __init__(self, path):
        path.write_bytes(bytes(64))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 64)

    def read(self):
        counts = struct.unpack("8q", self.map)
        return dict(zip(KINDS, counts[:4])), dict(zip(KINDS, counts[4:]))


@pytest.fixture
def watched(runtime, leat_build, leat_bin, tmp_path, monkeypatch):
    """An agent whose loop is watched."""
    control = tmp_path / "watched"
    it = Watched(control)
    wrapper = tmp_path / "leat"
    library = leat_build / "tests" / "unit" / "libloop_watch.so"
    wrapper.write_text(f'#!/bin/sh\nexport LD_PRELOAD={library} LEAT_TEST_LOOP_WATCH={control}\nexec {leat_bin} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("LEAT_AGENT", str(wrapper))
    monkeypatch.setenv("LEAT_LINGER", "1s")
    yield it
    runtime.wait_gone()


def minor_faults(pid):
    """Pages that the loop's thread was the first to touch."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as file:
            name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        if name == "leat-agent":
            return int(rest.split()[7])
    raise AssertionError("no loop")


@pytest.fixture(scope="module")
def large(leat_bin, tmp_path_factory):
    """12 samples of 2 MB before 600 of 10 bytes: the first batches take far more than their slots have."""
    folder = tmp_path_factory.mktemp("large")
    files = folder / "files"
    files.mkdir()
    for i in range(612):
        (files / f"{i:04d}.bin").write_bytes(bytes([i % 251]) * (2_000_000 if i < 12 else 10))
    return pack(leat_bin, files, folder / "ds", "--chunk-size", "4MiB", "--keep-order")


def test_large_batches_and_what_they_leave_are_not_the_loops_work(lt, runtime, watched, large):
    fields = {"b": lt.bytes("bin")}
    options = {"batch_size": 12, "slots": 2, "shuffle": False, "as_numpy": True, "fields": fields}
    with lt.Loader(large.url, ram="64mb", **options) as loader:
        pid = runtime.agent()
        before = minor_faults(pid)
        for n, (values,) in enumerate(loader):
            assert all(v == bytes([(12 * n + i) % 251]) * (2_000_000 if n == 0 else 10) for i, v in enumerate(values))
        touched = minor_faults(pid) - before
    runtime.wait_gone()
    loop, others = watched.read()
    assert others["shared"] > 24 * 10**6 and others["unmapped"] > 24 * 10**6, others
    assert max(loop.values()) < MIB, loop
    assert touched < 1000, "24 MB are 6000 pages"


def test_what_a_batch_gathers_in_the_end_is_not_copied_by_the_loop(lt, runtime, watched, tmp_path):
    """Where documents begin in a block of tokens is known when all blocks of the batch have been read."""
    data = Tokens(tmp_path / "tokens", documents(1, [10_000] * 4, most=5, least=3), "samples")
    options = {"batch_size": 4, "slots": 2, "as_numpy": True, "fields": {"c": lt.cu_seqlens("tokens")}}
    bytes_read = 0
    with lt.Loader(data.url, view="blocks=4096", **options) as loader:
        for (borders,) in loader:
            bytes_read += sum(4 * len(b) for b in borders)
    runtime.wait_gone()
    loop, others = watched.read()
    assert others["copied"] > bytes_read > 100_000, others
    assert loop["copied"] < bytes_read / 2, loop
