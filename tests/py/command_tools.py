"""What the tests of the commands share: running, waiting, looking at what is there."""

import contextlib
import functools
import os
import random
import subprocess
import time

import pytest

MIB = 1 << 20
PAGE = 4096


@functools.lru_cache(maxsize=16)
def some_bytes(n, seed=1):
    """Random ones, of which no two pages are the same; most of a large piece repeats, for a generator takes its time."""
    block = random.Random(seed).randbytes(min(n, MIB))
    data = bytearray(block * -(-n // MIB))
    for at in range(MIB, n - 7, PAGE):
        data[at : at + 8] = at.to_bytes(8, "big")
    return bytes(data[:n])


def leftovers(folder):
    """Temporary files of writes that did not end."""
    return list(folder.rglob(".leat-part-*"))


def one_line(done, *words):
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("leat: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@contextlib.contextmanager
def started(leat_bin, env, *args, **more):
    """A running command; killed at the end if it still runs."""
    more.setdefault("stderr", subprocess.PIPE)
    process = subprocess.Popen([str(leat_bin), *map(str, args)], env=env, **more)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until(condition, what, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.01)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become somebody without rights")


def can_unshare():
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
