"""What `leat profile --time` says of scripts that were not edited, beside full runs by hand in five ways.

python bench/bench_scripts.py [--leat PATH] [--only images|gpt] [--seconds 60] [--turn 3] [--profiles 2]

bench/scripts has two trainings in the usual style: ResNet-18 on a torchvision ImageFolder, and a small GPT on a file of tokens.
By hand means what somebody would do who has read how stalls are measured: the script is copied, edited and run, on two ranks unless
it says otherwise, and told to write down when each of its steps ended.

    as it is                the script
    one rank, synthetic     batches kept in memory, one process: computing alone
    synthetic               batches kept in memory
    cached                  every file is read once before the training
    cold                    files are dropped from the page cache before each epoch

Cores are not equally fast from one minute to the next: full runs one after the other differ by more than what is to be shown (here
and on rented machines by 10 to 40 %). So all five are started, and then take turns of --turn seconds (SIGSTOP, SIGCONT) until each has
had --seconds. Steps count that lie within one turn. A difference is taken within each round of turns; its mean is given with the
interval that the rounds leave (95 %). Interconnect is synthetic less one rank, preparing cached less synthetic, fetching cold less
cached: all as shares of a cold step.

The profiled script is the one that was not edited, while the five stand still: --profiles times, each in a tenth of the time that the
five take together, its own start and end included.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, table, write

SCRIPTS = ROOT / "bench" / "scripts"
WARM = 15  # steps before a run stands still for the first time
RUNS = ["as it is", "one rank, synthetic", "synthetic", "cached", "cold"]
BATCH = {"images": 4, "gpt": 8}
LOOP = {"images": "        for images, target in loader:\n", "gpt": "        for x, y in loader:\n"}
KEEP = "    kept = [batch for batch, _ in zip(loader, range(20), strict=False)]\n"
FILES = {"images": "[path for path, _ in dataset.samples]", "gpt": "[args.data]"}
READ = "    for path in FILES:\n        open(path, 'rb').read()\n"
DROP = """        for path in FILES:
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        if distributed:
            dist.barrier()
"""
EPOCHS = "    for epoch in range(args.epochs):\n"
BEGIN, END = "        start, steps = time.perf_counter(), 0\n", "            steps += 1\n"
STAMPS = "    stamps = open(f'{__file__}.{rank}', 'w', buffering=1)\n"
STAMP = "stamps.write(f'{steps} {time.perf_counter_ns()}\\n')\n"
PEERS = """import sys, types
sys.path.append({peers!r})
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
"""


def edited(kind, name, text):
    """The script's text after what somebody would change in it for this run."""
    files, loop = FILES[kind], LOOP[kind]
    changes = {
        "as it is": [],
        "cached": [(EPOCHS, READ.replace("FILES", files) + EPOCHS)],
        "cold": [(EPOCHS, EPOCHS + DROP.replace("FILES", files))],
    }
    kept = loop.replace("in loader:", "in (kept[i % len(kept)] for i in range(len(loader))):")
    stamps = [(EPOCHS, STAMPS + EPOCHS), (BEGIN, BEGIN + " " * 8 + STAMP), (END, END + " " * 12 + STAMP)]
    for old, new in [*changes.get(name, [(EPOCHS, KEEP + EPOCHS), (loop, kept)]), *stamps]:
        assert text.count(old) == 1, f"{kind}: '{old.strip()}' is not there once"
        text = text.replace(old, new)
    return text


def make_pictures(folder, count):
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(1)
    for i in range(count):
        path = folder / f"class{i % 4}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = draw.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((640, 480), Image.BICUBIC).save(path, quality=90)
    return folder


def make_tokens(path, count):
    draw = random.Random(1)
    path.write_bytes(b"".join(draw.randrange(1024).to_bytes(2, "little") for _ in range(count * 64 + 1)))
    return path


def environment(folder):
    """The processors train, each rank on one core. Where torchvision is only in .venv/peers, it is found there."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo"}
    probe = [sys.executable, "-c", "from torchvision.models import resnet18"]
    if subprocess.run(probe, env=env, capture_output=True, check=False).returncode:
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(PEERS.format(peers=str(ROOT / ".venv" / "peers")))
        env["PYTHONPATH"] = f"{folder / 'site'}:{env.get('PYTHONPATH', '')}"
        subprocess.run(probe, env=env, check=True)
    return env


class Run:
    """One of the runs by hand: started until it has made some steps, then standing still unless it is its turn."""

    def __init__(self, kind, name, data, folder, options, env):
        self.name, self.turns = name, []
        self.script = folder / f"{kind}-{RUNS.index(name)}.py"
        self.script.write_text(edited(kind, name, (SCRIPTS / f"train_{kind}.py").read_text()))
        ranks = 1 if name.startswith("one rank") else 2
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            job = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        command = [sys.executable, self.script, data, "--epochs", "1000000", "--workers", str(options.workers)]
        command += ["--batch-size", str(BATCH[kind])]
        self.processes = []
        for rank in range(ranks):
            where = {**env, **job, "RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else env
            group = self.processes[0].pid if self.processes else 0
            self.processes.append(subprocess.Popen(command, env=where, stdout=subprocess.DEVNULL, process_group=group))

    def signal(self, number):
        os.killpg(self.processes[0].pid, number)

    def stamps(self):
        """[(steps of the epoch, seconds)]"""
        path = Path(f"{self.script}.0")
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        rows = [line.split() for line in lines if line.endswith("\n")]
        return [(int(step), int(ns) / 1e9) for step, ns in rows]

    def start(self):
        deadline = time.perf_counter() + 300
        while len(self.stamps()) < WARM:
            if time.perf_counter() > deadline or self.processes[0].poll() is not None:
                raise SystemExit(f"'{self.name}' does not train")
            time.sleep(0.2)
        self.signal(signal.SIGSTOP)

    def turn(self, seconds):
        start = time.perf_counter()
        self.signal(signal.SIGCONT)
        time.sleep(seconds)
        self.signal(signal.SIGSTOP)
        self.turns.append((start, time.perf_counter()))

    def steps(self):
        """Seconds of a step, turn by turn; the first two of a turn do not count: it has just got its cores."""
        found, stamps = [], self.stamps()
        for start, end in self.turns:
            inside = [stamp for stamp in stamps if start < stamp[1] < end]
            took = [b[1] - a[1] for a, b in zip(inside[2:], inside[3:], strict=False) if b[0] == a[0] + 1]
            found.append(statistics.fmean(took) if took else float("nan"))
        return found

    def end(self):
        self.signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()


def profiled(kind, leat, data, seconds, epochs, options, folder, env):
    """The report of the script as it is, and what that took."""
    start, out = time.perf_counter(), folder / f"{kind}.json"
    command = [leat, "profile", "--time", f"{seconds:.0f}s", "--precision", "0.1", "-o", out, "--", sys.executable]
    command += [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        SCRIPTS / f"train_{kind}.py",
        data,
    ]
    command += ["--epochs", epochs, "--workers", options.workers, "--batch-size", BATCH[kind]]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(done.stderr, flush=True)
    return json.loads(out.read_text()), time.perf_counter() - start


def interval(values):
    """Mean, and half of what holds it with 95 %."""
    return statistics.fmean(values), 2.1 * statistics.stdev(values) / len(values) ** 0.5


def shares(steps):
    """{part: share}, as far as these runs tell: of a cold step, or of one as the script is where none was cold."""
    pairs = {
        "interconnect": ("synthetic", "one rank, synthetic"),
        "prepare": ("cached", "synthetic"),
        "fetch": ("cold", "cached"),
    }
    whole = steps.get("cold", steps["as it is"])
    known = {part: pair for part, pair in pairs.items() if set(pair) <= set(steps)}
    return {part: (steps[more] - steps[less]) / whole for part, (more, less) in known.items()}


def compare(kind, leat, options, folder, env):
    make = make_pictures if kind == "images" else make_tokens
    began, runs = time.perf_counter(), []
    data = {name: make(folder / f"{kind}-{name}", options.samples) for name in ("warm", "cold")}
    os.sync()  # what is not written yet cannot be dropped
    try:
        for name in RUNS:
            runs.append(Run(kind, name, data["cold" if name == "cold" else "warm"], folder, options, env))
            runs[-1].start()
        rounds = max(4, round(options.seconds / options.turn))
        start_s = (time.perf_counter() - began) / len(RUNS)
        hand_s = len(RUNS) * (start_s + rounds * options.turn)
        print(f"  {kind}: {rounds} rounds of turns of {options.turn} s, {start_s:.0f} s to start one", flush=True)
        found, took, at = [], [], {rounds * (i + 1) // (options.profiles + 1) for i in range(options.profiles)}
        for turn in range(rounds):
            for run in runs[:: 1 - 2 * (turn % 2)]:
                run.turn(options.turn)
            if turn in at:
                seconds = max(5.0, hand_s / 10 - start_s - 3)
                step_s = next(run for run in runs if run.name == "as it is").steps()[-1]
                epochs = int(0.5 * seconds / step_s / (options.samples // BATCH[kind] // 2)) + 1
                report, s = profiled(kind, leat, data["warm"], seconds, epochs, options, folder, env)
                names = {"single": "one rank, synthetic", "observed": "as it is"}
                found.append({names.get(one["mode"], one["mode"]): one["step_s"][0] for one in report["runs"]})
                took.append(s)
        steps = [dict(zip(RUNS, row, strict=True)) for row in zip(*(run.steps() for run in runs), strict=True)]
    finally:
        for run in runs:
            run.end()
    return tell(kind, steps, found, hand_s, took)


def tell(kind, steps, found, hand_s, took):
    def said(rows, name):
        values = [1e3 * row[name] for row in rows if name in row and row[name] == row[name]]
        return f"{statistics.fmean(values):.2f} ({min(values):.2f} … {max(values):.2f})" if values else "none"

    table(["run", "by hand, ms", "profiled, ms"], [[n, said(steps, n), said(found, n)] for n in RUNS])
    whole = [row for row in steps if all(value == value for value in row.values())]
    rows, hands, profs = [], [shares(row) for row in whole], [shares(row) for row in found]
    for part in hands[0]:
        hand, half = interval([100 * row[part] for row in hands])
        values = [100 * row[part] for row in profs if part in row]
        each = ", ".join(f"{value:.1f}" for value in values)
        off = f"{statistics.fmean(values) - hand:+.1f}" if values else ""
        rows.append([part, f"{hand:.1f} ± {half:.1f} %", f"{each} %" if values else "none", off])
    table(["of a cold step", "by hand", "profiled, each time", "mean, points off"], rows)
    ratio = statistics.fmean(took) / hand_s
    print(
        f"  {kind}: five runs by hand took {hand_s:.0f} s, a profile {statistics.fmean(took):.0f} s: {ratio:.2f} of it; "
        f"load {os.getloadavg()[0]:.1f}\n",
        flush=True,
    )
    return {"by_hand_s": steps, "profiled_s": found, "hand_took_s": hand_s, "profile_took_s": took}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leat", default="", help="the command, where it is not in build/release")
    parser.add_argument("--only", default="", choices=["", "images", "gpt"])
    parser.add_argument("--samples", type=int, default=800, help="pictures, and pieces of text")
    parser.add_argument("--seconds", type=float, default=60, help="that each of the five runs by hand gets")
    parser.add_argument("--turn", type=float, default=3, help="seconds")
    parser.add_argument("--profiles", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--folder", help="where the data go, on a disk: else a temporary one")
    options = parser.parse_args()
    leat = options.leat or ROOT / "build" / "release" / "src" / "cli" / "leat"
    folder = Path(tempfile.mkdtemp(prefix="leat-scripts-", dir=options.folder))
    try:
        env = environment(folder)
        kinds = [options.only] if options.only else ["images", "gpt"]
        write("scripts", {kind: compare(kind, leat, options, folder, env) for kind in kinds})
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
