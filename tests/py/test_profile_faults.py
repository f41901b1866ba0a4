"""`leat profile` and scripts that are odd, die, or meet a machine that is not as it should be: their own output and exit status, a
clear word from the profiler, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SANITIZE
from loading import SLOW
from profiling import left_behind, not_ours, unprofiled
from test_profile import seen_elsewhere

torch = pytest.importorskip("torch")

ODD = Path(__file__).with_name("profile_odd.py")


@pytest.mark.parametrize(
    ("kind", "status", "out", "words", "died"),
    [
        ("changing", 0, "steps 30 False\n", "loaders were seen", False),
        pytest.param("traced", 0, "steps 30 True\n", "", False, marks=pytest.mark.long),
        pytest.param("leaves", 4, "steps 30 False\n", "", False, marks=pytest.mark.long),
        pytest.param("exits", 1, "steps 30 False\n", "that is all", False, marks=pytest.mark.long),
        pytest.param("hooked", 1, "steps 30 False\n", "my own word: as it must", True, marks=seen_elsewhere),
        pytest.param("worker", 1, "", "ValueError: sample 9 is bad", None, marks=seen_elsewhere),
    ],
)
def test_odd_scripts_keep_their_output_and_status(profile, tmp_path, kind, status, out, words, died):
    under = ["-m", "cProfile", "-o", tmp_path / "other.prof"] if kind == "traced" else []
    done, report = profile(program=[*under, ODD, kind], status=status)
    assert done.stdout == out
    assert words in done.stderr
    if died is None:
        assert "not enough data" in done.stderr
        return
    assert report["ranks"][0]["died"] is died
    assert ("rank 0 ended before its time" in done.stderr) is died
    assert "about the others" not in done.stderr  # there are none
    assert report["ranks"][0]["steps"] == 30
    assert (tmp_path / "other.prof").exists() == (kind == "traced")


@pytest.mark.parametrize("option", ["--out", "--html", "--trace", "--metrics"])
@pytest.mark.parametrize("name", ["missing/r", "folder", "new/"])
def test_a_file_that_cannot_be_written_is_said_before_the_training(run_leat, tmp_path, option, name):
    (tmp_path / "folder").mkdir()
    started = tmp_path / "started"
    done = run_leat("profile", option, f"{tmp_path}/{name}", "--", "touch", started)
    assert done.returncode not in (0, 1)
    assert f"{option}: cannot write '{tmp_path}/{name}'" in done.stderr
    assert not started.exists()


def test_what_a_script_prints_comes_out_whole(profile):
    code = "import sys\nfor i in range(60000): print(i); print(i, file=sys.stderr)"
    done, _ = profile(program=["-c", code], fresh=True)
    numbers = "".join(f"{i}\n" for i in range(60000))
    assert done.stdout == numbers
    assert done.stderr.startswith(numbers + "leat: not enough data")


def test_a_sitecustomize_that_fails_fails_as_without_us(profile, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    command = [sys.executable, "-c", "print('script')"]
    plain = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    done, _ = profile(command=command, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == plain.stdout == "script\n"
    assert "ValueError: mine" in plain.stderr
    assert "ValueError: mine" in done.stderr


def test_a_profiler_within_a_profiler_is_named(profile, leat_bin, tmp_path):
    command = [leat_bin, "profile", "-o", tmp_path / "inner.json", "--", "sh", "-c", "exit 5"]
    done, _ = profile(command=command, status=5)
    assert "another 'leat profile' ran inside this one" in done.stderr


@not_ours
def test_operations_are_not_counted_for_ever(profile):
    """FLOPs are counted from the second batch to the third, and this one takes no third: counting makes each operation slower."""
    code = """
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batches = iter(torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2))
x, y = next(batches), next(batches)
seen = []
for _ in range(8):
    net(x + y).sum().backward()
    optimizer.step()
    seen.append(_get_current_dispatch_mode() is not None)
print(seen[0], seen[-1])
"""
    done, _ = profile(program=["-c", code])
    assert done.stdout == "True False\n"


WAITS = "import sys, time\nprint('up', flush=True)\nfor _ in range(6000): time.sleep(0.1)\n"
HANDLES = "import signal, sys\nsignal.signal({0}, lambda *_: sys.exit(9))\n" + WAITS


@pytest.mark.parametrize(
    ("name", "code", "status", "group"),
    [
        ("SIGINT", WAITS, 130, True),  # Ctrl-C
        ("SIGINT", WAITS, 130, False),
        ("SIGTERM", WAITS, 143, False),
        ("SIGHUP", HANDLES, 9, False),
        ("SIGUSR1", HANDLES, 9, False),
        ("SIGQUIT", HANDLES, 9, False),
    ],
)
def test_signals_reach_the_script_and_the_profiler_outlives_it(
    leat_bin, clean_env, tmp_path, name, code, status, group
):
    before = left_behind()
    number = getattr(signal, name)
    command = [leat_bin, "profile", "-o", tmp_path / "r.json", "--", sys.executable, "-c", code.format(int(number))]
    started = subprocess.Popen(
        command, env=clean_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert started.stdout.readline() == "up\n"
    (os.killpg if group else os.kill)(started.pid, number)
    _, said = started.communicate(timeout=60 * SLOW)
    assert started.returncode == status, said
    assert "not enough data" in said
    assert not left_behind() - before


@pytest.mark.parametrize("options", ["ro", "size=64k", "size=64m"])
def test_where_shared_memory_cannot_be_used_the_profiler_works_in_a_folder(leat_bin, clean_env, tmp_path, options):
    """A mount namespace of its own has a /dev/shm that is read-only, full, or as small as a container's."""
    script = 'mount -t tmpfs -o "$1" none /dev/shm || exit 99; shift; exec "$@"'
    code = "import os; print(os.environ['LEAT_PROFILE'])"
    command = ["unshare", "--mount", "sh", "-c", script, "-", options]
    command += [leat_bin, "profile", "-o", tmp_path / "r.json", "--", sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**clean_env, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/leat-profile-")
    assert not list(tmp_path.glob("leat-profile-*"))


def test_threads_without_room_for_their_records_are_told_of(tmp_path, profile):
    """As with a /dev/shm that fills up during the training."""
    code = f"""
import os, sys
folder = os.environ["LEAT_PROFILE"]
import _leat_lane as lanes
def full(*_): raise OSError(28, "no space")
os.posix_fallocate = full
lanes.lane().write(1, 0, 1)
exec(compile(open({str(ODD)!r}).read(), "odd", "exec"))
"""
    done, _ = profile(program=["-c", code, "plain"])
    assert done.stdout == "steps 30 False\n"
    assert "is full: some threads could not be followed" in done.stderr


def test_what_workers_of_earlier_epochs_left_is_taken_away(profile):
    """A loader starts new workers for every epoch. Each leaves some records, and every other one is killed."""
    code = """
import json, os, signal, sys, time
import _leat_lane as lanes
folder, parent = os.environ["LEAT_PROFILE"], os.getpid()
lanes.lane().write(lanes.WAIT, 1, 2)
sizes = []
for epoch in range(60):
    child = os.fork()
    if not child:
        os.environ["LEAT_PROFILE_LOADER"] = f"1:0:{parent}"
        lanes.lane().write(lanes.FETCH, 1, 2)
        path = f"{folder}/lane-{os.getpid()}-{os.getpid()}"
        while not lanes.lane().words[lanes.W_TAIL]:  # until it is read
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL) if epoch % 2 else os._exit(0)
    os.waitpid(child, 0)
    sizes += [os.stat(f"{folder}/{name}").st_size for name in os.listdir(folder) if name == f"lane-{child}-{child}"]
until = time.monotonic() + 60
while (left := [n for n in os.listdir(folder) if n.startswith("lane-")]) != [f"lane-{parent}-{parent}"] and time.monotonic() < until:
    time.sleep(0.02)
print(json.dumps({"left": len(left), "seen": len(sizes), "largest": max(sizes)}))
"""
    done, _ = profile(program=["-c", code])
    said = json.loads(done.stdout)
    assert said["seen"] == 60
    assert said["left"] == 1
    assert said["largest"] < 50_000


def test_shared_memory_that_the_script_needs_is_left_to_it(profile):
    code = """
import os
import _leat_lane as lanes
plain = os.statvfs
def nearly_full(path):
    return os.statvfs_result([*plain(path)[:4], 33 * 1048576 // plain(path).f_frsize, *plain(path)[5:]])
os.statvfs = nearly_full
print(type(lanes.lane()).__name__)
import threading
thread = threading.Thread(target=lambda: print(type(lanes.lane()).__name__))
os.statvfs = lambda path: os.statvfs_result([*plain(path)[:3], 0, 0, *plain(path)[5:]])
thread.start()
thread.join()
"""
    done, _ = profile(program=["-c", code])
    assert done.stdout == "Lane\nNoLane\n"
    assert "is full: some threads could not be followed" in done.stderr


def test_events_of_one_gpu_are_never_used_on_another(profile):
    """As a model on two GPUs of one process. CUDA refuses to record an event on another device than before, and to compare two."""
    code = """
import types
import _leat_observe as observe
now, ticks = [0], [0]
class Event:
    def __init__(self, enable_timing): self.device = None
    def record(self):
        if self.device not in (None, now[0]): raise RuntimeError(f"Event device {self.device} does not match {now[0]}")
        ticks[0] += 1
        self.device, self.at = now[0], ticks[0]
    def query(self): return True
    def elapsed_time(self, end):
        if self.device != end.device: raise RuntimeError("events of two devices")
        return (end.at - self.at) * 1.0
cuda = types.SimpleNamespace(Event=Event, current_device=lambda: now[0], is_current_stream_capturing=lambda: False)
device = observe.Device(types.SimpleNamespace(cuda=cuda))
lane, made = observe.lanes.lane(), []
lane.write = lambda kind, start, end, *more: made.append((more[1], end - start))
for step in range(40):
    now[0] = step // 2 % 2
    first = device.mark()
    if step % 8 == 5:
        now[0] = 1 - now[0]  # what begins on one and ends on the other has no length
    device.span(first, device.mark(), 1, 0, step, 0, 0, 0)
    device.collect()
device.drop(device.mark())
print(len(made), sorted({took for _, took in made}), len({value for value, _ in made}))
"""
    done, _ = profile(program=["-c", code])
    assert done.stdout == "35 [1000000] 35\n"


@pytest.mark.parametrize("words", [["profile", "show", "R"], ["profile", "diff", "R", "R"], ["whatif", "R"]])
def test_a_report_of_a_newer_version_is_refused_by_name(run_leat, tmp_path, words):
    report = tmp_path / "newer.json"
    report.write_text(json.dumps({"leat_report": 99, "unheard": []}))
    done = run_leat(*[report if word == "R" else word for word in words])
    assert done.returncode != 0
    assert "newer.json: a report of version 99" in done.stderr


@pytest.mark.skipif(bool(SANITIZE), reason="nothing of ours runs in the ranks")
@pytest.mark.parametrize(
    ("what", "rank"),
    [
        ("none", 1),
        ("snapshot", 1),
        *(pytest.param(*row, marks=pytest.mark.long) for row in (("park", 1), ("modes", 0), ("clone", 1))),
    ],
)
def test_what_fails_on_one_rank_ends_the_blocks_of_all_and_the_training_is_the_same(profile, tmp_path, what, rank):
    """A rank that left a block alone would exchange the gradients of its training with those of the others' replayed steps. So it
    would if it counted its steps otherwise after they stood still for it, or if it saved in the middle of a block."""
    script = Path(__file__).with_name("profile_apart.py")
    plain = unprofiled([script, "none", 9, tmp_path / "saved"], ranks=2)
    done, report = profile(None, "--time", "10s", program=[script, what, rank, tmp_path / "saved"], ranks=2)
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert "not every rank came" not in done.stderr
    modes = {run["mode"] for run in report["runs"]}
    if what == "none":
        assert modes >= {"observed", "synthetic", "alone", "single"}
        assert "ended early" not in done.stderr
    elif what == "clone":
        assert "a block of steps could not be measured to its end: MemoryError('injected')" in done.stderr
    else:
        assert modes == {"observed"}
        assert (
            f"differential runs ended early: {'' if rank == 0 else f'rank {rank}: '}MemoryError('injected')"
            in done.stderr
        )
        assert "MemoryError('injected')" in done.stderr


def test_metrics_that_cannot_be_written_any_more_do_not_cost_the_report(profile, tmp_path):
    path = tmp_path / "metrics" / "leat.prom"
    path.parent.mkdir()
    code = ODD.read_text() + f"\nimport shutil, time; shutil.rmtree({str(path.parent)!r}); time.sleep(0.5)\n"
    done, report = profile(None, "--metrics", path, "--every", "100ms", program=["-c", code, "changing"], status=None)
    assert done.returncode not in (0, 1)
    assert f"cannot write '{path}" in done.stderr
    assert report["ranks"][0]["steps"] == 30


def test_metrics_are_there_however_short_the_script_is(profile, tmp_path):
    """Less than the five seconds between two of them; in one piece, and nothing else is left in the folder."""
    path = tmp_path / "metrics" / "leat.prom"
    path.parent.mkdir()
    _, report = profile(None, "--metrics", path, program=[ODD, "changing"])
    rows = dict(line.rsplit(" ", 1) for line in path.read_text().splitlines() if not line.startswith("#"))
    step = float(rows["leat_profile_step_seconds"])
    assert step > 0
    assert 0 < float(rows["leat_profile_steps"]) <= report["ranks"][0]["steps"]
    parts = [float(value) for name, value in rows.items() if name.startswith("leat_profile_part_seconds")]
    assert sum(parts) == pytest.approx(step, rel=1e-3)
    assert os.listdir(path.parent) == ["leat.prom"]
