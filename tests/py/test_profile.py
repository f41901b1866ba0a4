"""`leat profile`: unedited scripts keep their output, numbers and exit status, and injected stalls are found."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BUILD, SANITIZE
from loading import warm_python
from profiling import OBSERVER, PLACE, TRAIN, cause, left_behind, not_ours, parts, truths, unprofiled

torch = pytest.importorskip("torch")

seen_elsewhere = pytest.mark.skipif(bool(SANITIZE), reason="in C the same as in other tests of this file")


@pytest.mark.skipif(bool(SANITIZE), reason="times are compared; the tests below have what is ours")
@pytest.mark.parametrize(
    ("wish", "first"),
    [
        ({"read": 0.008}, "fetch"),
        ({"transform": 0.008}, "prepare"),
        ({"copy": 0.012}, "copy"),
    ],
)
def test_an_injected_stall_is_found_and_measured(profile, wish, first):
    """Held against the script's own account: a part is no less than the sleeps in it and no more than the stretch around it,
    however long a busy machine makes either."""
    done, report = profile(wish)
    truth, parts_s = truths(done)[0], report["runs"][0]["parts_s"]
    parts(report)  # they add up
    waited = sum(parts_s[part] for part in ("fetch", "prepare", "input"))
    around = truth["copied_s"] if first == "copy" else truth["waited_s"]
    # A tenth less is allowed, as the script's steps do not begin where those of the report do.
    assert 0.9 * truth["slept_s"][first] <= parts_s[first] <= 1.01 * around
    assert waited <= 1.01 * truth["waited_s"]
    assert cause(done) == max(("fetch", "prepare", "input", "copy"), key=parts_s.get)
    assert first in parts_s and parts_s[first] > 0.0079


@pytest.mark.skipif(bool(SANITIZE), reason="times are compared; the tests below have what is ours")
@pytest.mark.parametrize("context", [pytest.param("spawn", marks=pytest.mark.long), "forkserver"])
def test_two_stalls_are_told_apart_and_spawned_workers_are_followed(profile, context):
    # A worker that sleeps 120 ms for each batch keeps nobody busy who computes for 1 ms. It has to be far slower than a training
    # that gets no core for a while: else it is ahead of it, and there is nothing to see.
    wish = {"read": 0.05, "transform": 0.01, "workers": 1, "context": context, "compute": 0.001, "steps": 30}
    done, report = profile(wish)
    assert report, done.stderr
    run, split = report["runs"][0], parts(report)
    assert cause(done) == "fetch"
    assert run["workers"] == 1
    assert run["fetch_s"] > 0.099
    assert run["prepare_s"] > 0.0199
    assert run["batch"] == 2
    assert split["fetch"] > split["prepare"]


@pytest.mark.skipif(bool(SANITIZE), reason="times are compared; the tests below have what is ours")
def test_what_it_costs_to_take_over_a_batch_that_is_ready_is_told(profile):
    _, report = profile({"workers": 2, "compute": 0.03})  # workers have nothing to do, and are ahead
    run = report["runs"][0]
    assert 0 < run["handover_s"] <= sum(run["parts_s"][part] for part in ("fetch", "prepare", "input"))


def test_a_straggler_is_named_and_its_lateness_is_no_communication(profile, tmp_path):
    """Held against the moments in which its ranks had all gradients, by their own account."""
    wish = {"late": 0.05, "steps": 40, "account": str(tmp_path / "rank")}
    done, report = profile(wish, "--watch", "--every", "300ms", ranks=2)
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text())["steps"][2:] for rank in range(2)]
    apart = [second["arrived"] - first["arrived"] for first, second in zip(*ranks, strict=True)]
    assert report["runs"][0]["gpus"] == 2
    assert "rank 1 holds the others up" in done.stderr
    assert re.search(r"steps of .* ms, 2 ranks: .*; rank 1 is last in", done.stderr)
    late = {rank["rank"]: rank for rank in report["ranks"]}
    assert late[1]["late_of"] == pytest.approx(sum(s > 0 for s in apart) / len(apart), abs=0.1)
    assert late[1]["late_s"] == pytest.approx(sum(max(0, s) for s in apart) / len(apart), rel=0.1)
    split = parts(report)
    assert split["forward"] > split["communication"]


def test_communication_is_found_and_differs_from_a_run_without_it(profile):
    done, report = profile({"link": 0.04, "steps": 110}, "--time", "1min", ranks=2)
    assert cause(done) == "communication"
    assert sum(report["runs"][0]["bucket_bytes"]) == report["runs"][0]["gradient_bytes"] > 0
    runs = {run["mode"]: run for run in report["runs"]}
    assert runs["alone"]["step_s"][0] < runs["synthetic"]["step_s"][0] - 0.01
    stall = next(s for s in report["stalls"] if s["cause"] == "communication" and s["from"][1] >= 0)
    assert [report["runs"][i]["mode"] for i in stall["from"]] == ["synthetic", "alone"]
    assert stall["s"][0] > 0.01
    # One rank while the other stands still, and the links by themselves, with the size of its bucket.
    assert runs["single"]["gpus"] == 1
    assert runs["single"]["step_s"][0] < runs["synthetic"]["step_s"][0] - 0.01
    assert any(s["cause"] == "interconnect" for s in report["stalls"])
    step = next(run["step_s"][0] for run in report["runs"] if run["mode"] == "observed")
    assert all(s["share"] == pytest.approx(s["s"][0] / step, rel=1e-6) for s in report["stalls"])
    assert {(link["scope"], link["backend"], link["ranks"]) for link in report["links"]} == {("machine", "gloo", 2)}
    assert {link["bytes"] for link in report["links"]} >= set(report["runs"][0]["bucket_bytes"])


READS = """
import os, sys, torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Files(Dataset):
    names = sorted(os.listdir(sys.argv[1]))
    def __len__(self): return len(self.names)
    def __getitem__(self, i):
        with open(os.path.join(sys.argv[1], self.names[i]), "rb") as file:
            return torch.frombuffer(bytearray(file.read()[:64]), dtype=torch.uint8) / 255 + torch.rand(64), i % 3
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 3), torch.nn.Dropout(0.1))
optimizer = torch.optim.Adam(net.parameters())
losses = []
for epoch in range(2):
    for x, y in DataLoader(Files(), batch_size=1, shuffle=True, num_workers=int(sys.argv[2])):
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
print([p.double().sum().item() for p in net.parameters()], torch.rand(1).item())
"""


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.long), 2])
def test_samples_are_read_again_from_memory_and_from_the_disk_and_the_training_is_the_same(profile, tmp_path, workers):
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(220):
        (folder / f"{i:03}").write_bytes(os.urandom(1 << 17))
    os.sync()  # what is not written yet cannot be dropped
    program = ["-c", READS, folder, workers]
    plain = unprofiled(program)
    done, report = profile(None, "--time", "1min", program=program)
    assert done.stdout == plain.stdout  # bit for bit
    runs = {run["mode"]: run for run in report["runs"]}
    assert {"observed", "synthetic", "cached", "cold"} <= set(runs)
    assert runs["cached"]["read_bytes"] == pytest.approx(1 << 17, rel=0.2)
    assert runs["cached"]["memory_rate"] > 0
    if not any("was not cold" in note for note in report["notes"]):  # else the folder is in memory
        assert runs["cold"]["disk_bytes"] > 0.5 * (1 << 17)
        assert {"fetch", "prepare"} <= {s["cause"] for s in report["stalls"] if s["from"][1] >= 0}


def test_replayed_steps_leave_no_trace_and_show_what_data_costs(profile, run_leat, tmp_path):
    wish = {"read": 0.025, "steps": 110}  # 50 ms of a step: far more than a busy machine keeps it from a core
    plain = unprofiled([TRAIN, json.dumps(wish)])
    done, report = profile(wish, "--time", "1min", "--type", "m5.large")
    assert done.stdout == plain.stdout  # weights, learning rate, random numbers: bit for bit
    assert truths(done)[0]["iterations"] > 130
    stall = next(s for s in report["stalls"] if s["cause"] == "data")
    assert [report["runs"][i]["mode"] for i in stall["from"]] == ["observed", "synthetic"]
    split = parts(report)
    waited = (split["fetch"] + split["prepare"] + split["input"]) * report["runs"][0]["step_s"][0]
    assert split["fetch"] > split["prepare"] + split["input"]
    assert stall["s"][0] == pytest.approx(waited, rel=0.5)
    # What it would be with storage that takes no time lies between the two runs, and nearer to the replayed one.
    asked = run_leat("whatif", tmp_path / "report.json", "--storage-speed", "1000x", "--json", status=0)
    asked = json.loads(asked.stdout)
    runs = {run["mode"]: run for run in report["runs"]}
    least, most = runs["synthetic"]["step_s"][0], runs["observed"]["step_s"][0]
    assert least * 0.7 < asked["step_s"][0] < (least + most) / 2
    asked = run_leat("whatif", tmp_path / "report.json", "--cache", "50", "--json", status=0)
    assert json.loads(asked.stdout)["cache"][0]["step_s"] == pytest.approx(most)
    # … and a plan takes the report.
    (tmp_path / "job.toml").write_text('[job]\nname = "x"\nbatch = 2\nepochs = 1\nsamples = 1000\n')
    (tmp_path / "c.csv").write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
        "m5.large,cpu,1,2,8,,0.1,0.03,r,r-a\n"
    )
    plan = run_leat("plan", "-j", tmp_path / "job.toml", "-c", tmp_path / "c.csv", "--report", tmp_path / "report.json")
    assert "report.json" not in plan.stderr, plan.stderr  # nothing is wrong with it
    newer = tmp_path / "newer.json"
    newer.write_text((tmp_path / "report.json").read_text().replace('"leat_report": 3', '"leat_report": 9'))
    said = run_leat("plan", "-j", tmp_path / "job.toml", "-c", tmp_path / "c.csv", "--report", newer)
    assert said.returncode != 0
    assert "newer.json: a report of version 9" in said.stderr


def test_a_dataset_that_only_sleeps_is_not_taken_for_slow_storage(profile, run_leat, tmp_path):
    done, report = profile({"read": 0.025})
    run = report["runs"][0]
    assert run["fetch_s"] > 0.05
    assert run["read_bytes"] is None
    assert "nothing was seen to be read meanwhile" in done.stderr
    assert "with everything cached" not in done.stderr
    assert int(re.search(r"num_workers=(\d+) would read ahead", done.stderr).group(1)) <= run["cores"]
    for words in (["--cache", "50%"], ["--storage-speed", "2x"], ["--loader", "leat"]):
        said = run_leat("whatif", tmp_path / "report.json", *words, status=2)
        assert said.stdout == ""
        assert "give --sample-bytes" in said.stderr


def test_without_replayed_steps_nothing_changes_at_all_and_what_is_counted_once_is_there(profile, tmp_path):
    wish = {"save": str(tmp_path / "weights.pt")}
    plain = unprofiled([TRAIN, json.dumps(wish)])
    done, report = profile(wish, fresh=True)
    assert done.stdout == plain.stdout  # also the step whose operations were counted
    assert truths(done)[0]["iterations"] == 45
    run = report["runs"][0]
    # Two linear layers, 16 → 8 → 3, of 2 samples: forward, gradients of weights, and of the second one's input.
    assert run["flops"] == 2 * 2 * (16 * 8 * 2 + 8 * 3 * 3)
    assert run["dataset_samples"] == 90
    assert run["handover_s"] is None  # no batch was ready
    assert run["checkpoint_bytes"] == (tmp_path / "weights.pt").stat().st_size
    assert 0 < run["checkpoint_write_s"] < 60
    assert 0 < run["checkpoint_read_s"] < 60
    assert run["peak_gpu_bytes"] is None
    assert {step["mode"] for step in report["steps"]} == {"observed"}
    for step in report["steps"]:
        assert sum(step["stages_s"].values()) > 0.005
    assert {"wait", "fetch", "backward", "optimizer"} <= {span["what"] for span in report["spans"]}


@seen_elsewhere  # test_other_commands_run_as_they_are
def test_a_script_that_ends_early_keeps_its_status(profile):
    done, _ = profile({"end": "exit"}, status=7)
    assert "not enough data" in done.stderr


@seen_elsewhere  # test_a_rank_that_is_killed_is_marked_in_the_report_of_the_others
def test_a_script_that_crashes_keeps_its_traceback(profile):
    done, report = profile({"end": "crash"}, status=1)
    assert "RuntimeError: as it must" in done.stderr
    assert "rank 0 ended before its time" in done.stderr
    assert report["ranks"][0]["died"] is True


def test_a_rank_that_is_killed_is_marked_in_the_report_of_the_others(profile):
    done, report = profile({"end": "killed"}, status=1, ranks=2)
    died = {rank["rank"]: rank["died"] for rank in report["ranks"]}
    assert died[1] is True
    assert "rank 1 ended before its time" in done.stderr
    assert report["runs"][0]["steps"] >= 20


def test_other_commands_run_as_they_are(profile, tmp_path):
    done, report = profile(command=["sh", "-c", "echo out; echo err >&2; exit 5"], status=5)
    assert done.stdout == "out\n"
    assert done.stderr.startswith("err\n")
    assert "not enough data: 0 training steps" in done.stderr
    assert report is None
    done, _ = profile(command=["sh", "-c", "kill -TERM $$"], status=128 + signal.SIGTERM)
    done, _ = profile(command=["/does/not/exist"], status=3)
    assert "cannot start /does/not/exist" in done.stderr


def test_the_users_own_sitecustomize_still_runs(profile, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine', flush=True)\n")
    done, _ = profile(program=["-c", "print('script')"], fresh=True, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == "mine\nscript\n"


NO_LOADER = """
import torch, time
from torch.profiler import profile
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with profile() as other:
    for i in range(40):
        time.sleep(0.002)
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
print(len(other.events()) > 0)
"""


def test_without_a_loader_and_under_another_profiler(profile):
    done, report = profile(program=["-c", NO_LOADER])
    assert done.stdout == "True\n"
    assert "no loader was seen" in done.stderr
    assert report["runs"][0]["steps"] >= 30
    assert parts(report)["fetch"] == 0


ONE_BATCH = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
net = torch.nn.Linear(16, 3)
optimizer = torch.optim.Adam(net.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 16), torch.arange(64) % 3), batch_size=8, num_workers=int(sys.argv[2]))
kind = sys.argv[1]
if kind == "one":
    x, y = next(iter(loader))

def step(x, y):
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    if kind == "none":
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
    else:
        optimizer.step(); optimizer.zero_grad()

for i in range(100):
    if kind != "one":
        x, y = torch.rand(8, 16), torch.arange(8) % 3
    step(x, y)
if kind == "first":
    for _ in range(5):
        for x, y in loader:
            step(x, y)
print([p.double().sum().item() for p in net.parameters()])
"""


@pytest.mark.parametrize(
    ("kind", "workers", "options"),
    [
        pytest.param("one", 2, (), marks=pytest.mark.long),
        ("one", 0, ("--time", "20s")),
        ("none", 0, ("--time", "20s")),
    ],
)
def test_steps_that_take_no_batch_are_counted_by_the_optimizer(profile, kind, workers, options):
    """One batch over and over, tensors of the script's own, and these without an optimizer."""
    program = ["-c", ONE_BATCH, kind, workers]
    plain = unprofiled(program)
    done, report = profile(None, *options, program=program)
    assert done.stdout == plain.stdout
    assert report["runs"][0]["steps"] in (97, 98)  # without the first two, and what comes before the first border
    assert [run["mode"] for run in report["runs"]] == ["observed"]
    split = parts(report)
    assert split["fetch"] == split["prepare"] == 0
    why = "no batch was taken from a loader between steps" if kind == "one" else "no loader was seen"
    assert why in done.stderr
    assert ("no differential runs: the script takes no batches" in done.stderr) == bool(options)


def test_a_trial_without_batches_before_the_training_is_no_part_of_it(profile):
    done, report = profile(program=["-c", ONE_BATCH, "first", 0])
    assert 30 < report["runs"][0]["steps"] < 40  # five epochs of 8, without the first two
    assert report["runs"][0]["batch"] == 8
    assert "no batch was taken" not in done.stderr


UNEVEN = """
import torch, time
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(70):
    time.sleep(0.05 if i // 20 % 2 else 0.001)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_an_interval_that_few_stretches_leave_wide_is_explained(profile):
    done, report = profile(program=["-c", UNEVEN])
    mean, low, high = report["runs"][0]["step_s"]
    assert high - low > 0.2 * mean
    assert "what a step takes is not known well: it was seen in 3 stretches" in done.stderr


def test_what_a_killed_profiler_leaves_is_removed_by_the_next(leat_bin, clean_env, profile):
    stuck = subprocess.Popen(
        [leat_bin, "profile", "--", sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
        env=clean_env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    stuck.stdout.readline()
    script = Path(f"/proc/{stuck.pid}/task/{stuck.pid}/children").read_text().split()[0]
    environment = Path(f"/proc/{script}/environ").read_bytes().split(b"\0")
    mine = [Path(os.fsdecode(row[13:])).name for row in environment if row.startswith(b"LEAT_PROFILE=")]
    os.kill(stuck.pid, signal.SIGKILL)
    stuck.wait()
    assert set(mine) <= left_behind()
    stuck.stdin.close()
    stuck.stdout.close()
    for name in mine:
        old = time.time() - 60
        with contextlib.suppress(FileNotFoundError):
            os.utime(PLACE / name, (old, old))
    profile(command=["true"])
    assert not set(mine) & left_behind()


@not_ours
def test_a_record_takes_few_instructions_and_what_does_not_fit_is_counted(tmp_path):
    code = f"""
import sys
sys.path.insert(0, {str(OBSERVER)!r})
import observe
observe.lanes.folder = {str(tmp_path)!r}
lane = observe.lanes.lane()
count = 0
def trace(frame, event, arg):
    global count
    frame.f_trace_opcodes = True
    count += event == "opcode"
    return trace
for i in range(2000): lane.write(1, i, i + 1)
sys.settrace(trace)
lane.write(1, i, i + 1, 2, 3, 4)
sys.settrace(None)
for i in range(9999): lane.write(1, i, i + 1, 2, 3, 4)
print(count, lane.words[observe.lanes.W_DROPPED], lane.head)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    instructions, dropped, kept = map(int, done.stdout.split())
    assert 0 < instructions <= 150
    assert (dropped, kept) == (12000 - 8192, 8192)  # bounded


@not_ours
def test_watching_adds_few_calls_and_instructions_to_the_smallest_step():
    """Against the same step without it, in the same process. No machine and no load changes these; both bounds are half as
    much again as what it is. `make bench-profile` says what it takes in time."""
    command = warm_python(TRAIN.with_name("profile_cost.py"), OBSERVER, 0, 0)
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert 0 < said["watched_calls"] - said["plain_calls"] <= 110
    assert 0 < said["watched_instructions"] - said["plain_instructions"] <= 1800


@not_ours
def test_what_a_gpu_has_does_not_end_in_a_forked_child(tmp_path):
    code = f"""
import gc, os, sys
sys.path.insert(0, {str(OBSERVER)!r})
import observe
observe.start({str(tmp_path)!r})
class Event:  # the end of one of CUDA's calls the driver, which aborts a forked process
    def __del__(self):
        os.write(1, b"ended in the child" if os.getpid() != parent else b"")
parent = os.getpid()
observe.current.device = Event()
pid = os.fork()
if not pid:
    gc.collect()
    os.kill(os.getpid(), 9)
os.waitpid(pid, 0)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


WATCHED = """
import torch, time, sys, io
sys.path.insert(0, sys.argv[1])
import leat
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def batches():
    for i in range(40):
        time.sleep(0.02)
        yield torch.ones(2, 4)
watched = leat.watch(batches(), every=0.1, file=sys.stdout)
for x in watched:
    net(x).sum().backward()
    optimizer.step()
print(watched.steps)
"""


def test_any_iterable_can_be_watched_with_and_without_the_profiler(profile):
    code = WATCHED.replace("sys.path.insert(0, sys.argv[1])", f"sys.path.insert(0, {str(BUILD / 'python')!r})")
    alone = unprofiled(["-c", code]).stdout.splitlines()
    assert alone[-1] == "40"
    said = re.fullmatch(r"leat: \d+ steps of ([\d.]+) ms: waiting for data ([\d.]+) %", alone[0])
    step_ms, share = map(float, said.groups())
    assert 0.99 * 20 <= step_ms * share / 100 <= step_ms
    done, report = profile(program=["-c", code])
    assert done.stdout == "40\n"  # the profiler speaks, and it counts as it does alone
    assert 0.99 * 0.02 <= report["runs"][0]["parts_s"]["input"] <= report["runs"][0]["step_s"][0]
    assert cause(done) == "input"


class FakeEvent:
    """An event on a GPU that is a variable: it happens when the work before it in the stream is done."""

    clock = 0.0
    done_until = 0.0

    def __init__(self, enable_timing):
        assert enable_timing
        self.at = None

    def record(self):
        self.at = FakeEvent.clock

    def query(self):
        return self.at <= FakeEvent.done_until

    def elapsed_time(self, other):
        assert self.query()  # else torch would raise, or wait
        assert other.query()
        return other.at - self.at

    def synchronize(self):
        raise AssertionError("nothing may wait for the GPU")


@not_ours
def test_the_gpus_time_line_is_read_without_ever_waiting_for_it(tmp_path, monkeypatch):
    import types

    monkeypatch.syspath_prepend(str(OBSERVER))
    import observe

    cuda = types.SimpleNamespace(Event=FakeEvent, current_device=lambda: 0, is_current_stream_capturing=lambda: False)
    monkeypatch.setattr(observe.lanes, "folder", str(tmp_path))
    monkeypatch.setattr(observe.current, "device", observe.Device(types.SimpleNamespace(cuda=cuda)))
    FakeEvent.clock = FakeEvent.done_until = 0.0
    for _ in range(3):
        outer = observe.Span(observe.BACKWARD)
        FakeEvent.clock += 7.0
        inner = observe.Span(observe.COMM)
        FakeEvent.clock += 3.0
        inner.end()
        outer.end()
        observe.current.device.collect()
    lane = observe.lanes.lane()
    assert lane.head == 6  # the host's; the GPU is behind

    def device_spans():
        rows = [lane.words[64 + 5 * i : 69 + 5 * i].tolist() for i in range(lane.head)]
        return [((row[2] & 255), row[1] - row[0]) for row in rows if row[2] >> 16 & observe.DEVICE]

    FakeEvent.done_until = 20.0
    observe.current.device.collect()
    assert device_spans() == [(observe.COMM, 3_000_000), (observe.BACKWARD, 10_000_000)] * 2
    FakeEvent.done_until = 30.0
    observe.current.device.collect()
    assert len(device_spans()) == 6
    made = len(observe.current.device.free[0]) + 1
    assert made == 12  # events are used again
