"""What tests of `leat profile` share: the command around a training, and what its report says.

Trainings are run by warm.py, where torch is imported already: the observer takes hold of it there as it does in a program that
has imported torch before it. `fresh=True` is for what looks at how Python starts; a few tests use it for a whole training.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SANITIZE
from loading import SLOW, torchrun, warm_python

TRAIN = Path(__file__).with_name("profile_train.py")
PLACE = Path("/dev/shm")
OBSERVER = ROOT / "src" / "profile" / "observer"
RANK_ENV = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
not_ours = pytest.mark.skipif(bool(SANITIZE), reason="nothing of ours in C runs here")


def left_behind():
    """Folders whose profiler is gone: a living one has a lock on its own."""
    left = set()
    for path in PLACE.glob("leat-profile-*"):
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.add(path.name)
            finally:
                os.close(fd)
    return left


def load(name):
    """A file of the observer, as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_under_test", OBSERVER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command_of(program, ranks=1, fresh=False):
    """The command that runs `python PROGRAM…`, on several ranks under torchrun."""
    if ranks > 1:
        return torchrun(*program, warm=not fresh)
    return [sys.executable, *map(str, program)] if fresh else warm_python(*program)


@pytest.fixture
def profile(run_leat, tmp_path):
    """profile({"read": 0.01}) -> (what was said, the report or None), after looking whether anything was left.

    `program` is what follows `python`, in place of profile_train.py with its wish; `command` is run as it is.
    """

    def run(wish=None, *options, program=None, command=None, status=0, ranks=1, fresh=False, env=None):
        out = tmp_path / "report.json"
        out.unlink(missing_ok=True)
        command = command or command_of(program or [TRAIN, json.dumps(wish or {})], ranks, fresh)
        before = left_behind()
        env = {**RANK_ENV, **(env or {})}
        done = run_leat("profile", "-o", out, *options, "--", *command, status=status, env=env, timeout=240 * SLOW)
        assert not left_behind() - before
        return done, json.loads(out.read_text()) if out.exists() else None

    return run


def unprofiled(program, ranks=1):
    """What a program says without the profiler."""
    command, env = command_of(program, ranks), {**os.environ, **RANK_ENV}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


def parts(report, mode="observed"):
    """Shares of a step, which add up."""
    run = next(run for run in report["runs"] if run["mode"] == mode)
    assert sum(run["parts_s"].values()) == pytest.approx(run["step_s"][0], rel=1e-6)
    return {name: seconds / run["step_s"][0] for name, seconds in run["parts_s"].items()}


def truths(done):
    """What each rank of profile_train.py says of itself."""
    found = [json.loads(line) for line in re.findall(r"truth (\{.*\})", done.stderr)]
    return {truth["rank"]: truth for truth in found}


def cause(done):
    """The part that is named first."""
    return re.search(r"^leat: (\w+): [0-9.]+ % of the step$", done.stderr, flags=re.M).group(1)
