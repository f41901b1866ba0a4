"""`leat profile` counts steps as a training goes on with them: with many workers, batches ahead and short epochs."""

import json
import sys
import threading
from pathlib import Path

import pytest
from loading import SLOW, wait_until
from profiling import load

pytest.importorskip("torch")
pytestmark = pytest.mark.python_only
TRAIN = Path(__file__).with_name("profile_epochs.py")


@pytest.fixture
def follow(profile):
    """follow(options, **wish) -> (what it said, the runs by mode, notes, what the script measured itself)."""

    def run(*options, **wish):
        done, report = profile(None, *options, program=[TRAIN, json.dumps(wish)])
        report = report or {"runs": [], "notes": []}
        runs = {found["mode"]: found for found in report["runs"]}
        return done.stderr, runs, report["notes"], json.loads(done.stdout.splitlines()[-1])

    return run


def waited(run):
    return sum(run["parts_s"][part] for part in ("fetch", "prepare", "input"))


def test_a_step_is_what_epochs_take_with_their_beginnings(follow):
    """A mean over epochs lies between the fastest and the slowest, whatever a busy machine adds to one of them."""
    said, runs, notes, truth = follow(epochs=4, steps=40)
    later = truth["epochs_step_s"][1:]  # the first one leaves out what it began with
    assert 0.97 * min(later) <= runs["observed"]["step_s"][0] <= 1.03 * max(later), (said, truth)
    assert said.startswith("leat: prepare: ")
    assert any("beginning of an epoch (of 40 steps)" in note for note in notes)


def test_workers_do_not_work_ahead_while_blocks_run(follow, tmp_path):
    """Else they would begin some of the 64 batches that fit ahead: one every 10 ms, and a block takes 120 ms or more. One that had
    gone on before the block may be late to say so. One epoch: batches of an earlier one would seem to be of this one."""
    wish = {"epochs": 1, "steps": 256, "workers": 2, "ahead": 32, "batch_s": 0.02, "compute_s": 0.005, "start_s": 0}
    said, _, _, truth = follow("--time", "4s", **wish, log=str(tmp_path / "log"))
    assert truth["again"] >= 1, said
    assert truth["begun"] <= 2 * truth["again"], said


@pytest.mark.long
def test_what_is_observed_between_blocks_is_what_workers_give(follow):
    """8 workers make a batch every 20 ms, a step computes for 10, and 32 batches fit ahead: as many as an epoch has steps after each
    block. Sleeps may take longer on a busy machine, but never shorter. That nothing takes longer is a matter of the machine
    (make bench-profile), and so is a cached step: where a training gets no core for a while, workers are ahead of it."""
    said, runs, _, _ = follow("--time", "8s", epochs=6)
    assert {"observed", "synthetic", "cached"} <= set(runs)
    observed = runs["observed"]
    pace = (observed["fetch_s"] + observed["prepare_s"]) / 8
    assert pace >= 0.02
    assert observed["step_s"][0] >= 0.97 * pace, said
    assert 0 < waited(observed) < observed["step_s"][0], said


def test_batches_that_were_ready_at_the_beginning_tell_nothing(follow):
    """Workers prepared 64 batches while the first step took its time; 40 steps do not even use them up."""
    said, runs, notes, _ = follow(epochs=1, steps=120, workers=4, ahead=16, batch_s=0.08, start_s=3, stop=40)
    assert "not enough data" in said, said
    assert "observed" not in runs or runs["observed"]["steps"] < 20
    assert any("workers were ahead" in note for note in notes) or not runs


@pytest.mark.long
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_that_start_with_every_epoch_are_input(follow, context):
    said, runs, _, truth = follow(epochs=4, steps=30, workers=2, persistent=False, context=context, batch_s=0.02)
    later = truth["epochs_step_s"][1:]
    assert 0.95 * min(later) <= runs["observed"]["step_s"][0] <= 1.05 * max(later), (said, truth)
    if context == "spawn":
        assert said.startswith("leat: input: "), said
        assert "persistent_workers=True" in said


@pytest.fixture
def fetches(monkeypatch):
    """The observer's part that follows fetches, as a module."""
    monkeypatch.setitem(sys.modules, "_leat_lane", load("lane"))
    return load("fetch")


def is_waited_for(path):
    """Whether a process waits for a lock on this file."""
    file = f":{path.stat().st_ino} "
    return any("-> FLOCK" in line and file in line for line in Path("/proc/locks").read_text().splitlines())


def test_a_worker_begins_no_batch_while_the_rank_has_closed_the_park(fetches, tmp_path):
    rank, worker = fetches.Park(tmp_path, 1), fetches.Park(tmp_path, 1)
    worker.at = worker.place(0, 3)
    rank.close()
    begins = threading.Thread(target=worker.enter, daemon=True)
    begins.start()
    wait_until(lambda: is_waited_for(tmp_path / "park-1"), 60, "the worker's wait for the lock")
    assert not rank.busy(0, 8)
    rank.open()
    begins.join(60 * SLOW)
    assert not begins.is_alive()
    assert rank.busy(0, 8)
    worker.leave()
    assert not rank.busy(0, 8)
