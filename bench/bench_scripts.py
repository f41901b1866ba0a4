"""What `leat profile --time` says of scripts that were not edited, beside full runs by hand in five ways.

python bench/bench_scripts.py [--leat PATH] [--only images|gpt] [--repeats 3] [--minutes 7] [--workers 0]

bench/scripts has two trainings in the usual style: ResNet-18 on a torchvision ImageFolder, and a small GPT on a file of tokens.
By hand means what somebody would do who has read how stalls are measured: the script is copied, edited and run to its end, on two
ranks unless it says otherwise, and its own line about each epoch is read. The first epoch is warm-up.

    as it is                the script
    one rank, synthetic     batches kept in memory, one process: computing alone
    synthetic               batches kept in memory
    cached                  every file is read once before the training
    cold                    files are dropped from the page cache before each epoch

One run after the other differs by more than some of what is to be shown. So the five are run in turn, and again and again
(--repeats, every second time in the other order). A difference is taken within each round, and its mean is given with the interval
that the rounds leave (95 %): a difference by hand that is not known to 2 points cannot show whether the profile is within 2 points.
Interconnect is synthetic less one rank, preparing cached less synthetic, fetching cold less cached: all as shares of a cold step.

A full run has as many epochs as make all runs by hand take --minutes together, counted from a trial of one epoch, which is not
counted. The profiled script is the one that was not edited, in a tenth of the time of *one* round of five, its own start and
end included; it is run as often as there are rounds, between them. So the whole takes little more than --minutes for each script.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, table, write

SCRIPTS = ROOT / "bench" / "scripts"
RUNS = ["as it is", "one rank, synthetic", "synthetic", "cached", "cold"]
T_VALUES = {2: 12.7, 3: 4.3, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}  # of 95 %
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
    for old, new in changes.get(name, [(EPOCHS, KEEP + EPOCHS), (loop, kept)]):
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
        Image.fromarray(coarse).resize((160, 120), Image.BICUBIC).save(path, quality=90)
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


def launch(ranks):
    if ranks == 1:
        return [sys.executable]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]


def by_hand(script, data, ranks, epochs, options, env):
    """Seconds of a step over all epochs but the first, and what the run took."""
    start = time.perf_counter()
    command = [*launch(ranks), script, data, "--epochs", epochs, "--workers", options.workers]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    steps = [float(ms) / 1e3 for ms in re.findall(r"([\d.]+) ms a step", done.stdout)]
    counted = steps[1:] or steps
    return sum(counted) / len(counted), time.perf_counter() - start


def profiled(leat, script, data, seconds, epochs, options, folder, env):
    """The report of the script as it is, and what that took."""
    start, out = time.perf_counter(), folder / "report.json"
    command = [leat, "profile", "--time", f"{seconds:.0f}s", "-o", out, "--", *launch(2), script, data]
    command += ["--epochs", epochs, "--workers", options.workers]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(done.stderr, flush=True)
    return json.loads(out.read_text()), time.perf_counter() - start


def interval(values):
    """Mean, and half of what holds it with 95 %."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, float("nan")
    return mean, T_VALUES.get(len(values), 2.3) * statistics.stdev(values) / len(values) ** 0.5


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


def plan(kind, data, options, folder, env):
    """Epochs of a run by hand, seconds and epochs of a profile: from a trial of one epoch."""
    step_s, took = by_hand(SCRIPTS / f"train_{kind}.py", data, 2, 1, options, env)
    epoch_s = step_s * (options.pictures // 16)
    start_s = max(0.0, took - epoch_s)
    each_s = 60 * options.minutes / (len(RUNS) * options.repeats) / 1.1  # a profile takes a tenth of a round
    epochs = max(3, int((each_s - start_s) / epoch_s))
    round_s = len(RUNS) * (start_s + epochs * epoch_s)
    # Epochs enough for its blocks: the script's own steps go on between them, and take about a third of the time.
    seconds = max(5.0, 0.1 * round_s - start_s - epoch_s)
    print(
        f"  {kind}: {options.pictures // 16} steps of {1e3 * step_s:.1f} ms in an epoch, {start_s:.0f} s to start; runs by hand of {epochs} "
        f"epochs, a round of them about {round_s:.0f} s, profiles with --time {seconds:.0f}s",
        flush=True,
    )
    return epochs, seconds, max(2, int(seconds / epoch_s / 3) + 1)


def compare(kind, leat, options, folder, env):
    make = make_pictures if kind == "images" else make_tokens
    data = make(folder / kind, options.pictures)
    os.sync()  # what is not written yet cannot be dropped
    script = SCRIPTS / f"train_{kind}.py"
    copy, steps, found, took, profiles = folder / f"edited_{kind}.py", [], [], [], []
    epochs, seconds, profile_epochs = plan(kind, data, options, folder, env)
    for turn in range(options.repeats):
        row, spent = {}, 0.0
        for name in RUNS[:: 1 - 2 * (turn % 2)]:
            copy.write_text(edited(kind, name, script.read_text()))
            ranks = 1 if name.startswith("one rank") else 2
            row[name], s = by_hand(copy, data, ranks, epochs, options, env)
            spent += s
            load = os.getloadavg()[0]
            print(f"  {kind}, {name}: {1e3 * row[name]:.2f} ms a step, {s:.0f} s, load {load:.1f}", flush=True)
        steps.append(row)
        took.append(spent)
        report, s = profiled(leat, script, data, seconds, profile_epochs, options, folder, env)
        names = {"single": "one rank, synthetic", "observed": "as it is"}
        found.append({names.get(run["mode"], run["mode"]): run["step_s"][0] for run in report["runs"]})
        profiles.append(s)
    return tell(kind, steps, found, took, profiles)


def tell(kind, steps, found, took, profiles):
    def said(rows, name):
        values = [1e3 * row[name] for row in rows if name in row]
        return f"{statistics.fmean(values):.2f} ({min(values):.2f} … {max(values):.2f})" if values else "none"

    table(["run", "by hand, ms", "profiled, ms"], [[n, said(steps, n), said(found, n)] for n in RUNS])
    rows, hands, profs = [], [shares(row) for row in steps], [shares(row) for row in found]
    for part in hands[0]:
        hand, half = interval([100 * row[part] for row in hands])
        values = [100 * row[part] for row in profs if part in row]
        each = ", ".join(f"{value:.1f}" for value in values)
        off = f"{statistics.fmean(values) - hand:+.1f}" if values else ""
        rows.append([part, f"{hand:.1f} ± {half:.1f} %", f"{each} %" if values else "none", off])
    table(["of a cold step", "by hand", "profiled, each time", "mean, points off"], rows)
    ratio = statistics.fmean(profiles) / statistics.fmean(took)
    print(
        f"  a round of five full runs by hand took {statistics.fmean(took):.0f} s, a profile {statistics.fmean(profiles):.0f} s: "
        f"{ratio:.2f} of it; load {os.getloadavg()[0]:.1f}\n",
        flush=True,
    )
    return {"by_hand_s": steps, "profiled_s": found, "hand_took_s": took, "profile_took_s": profiles}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leat", default="", help="the command, where it is not in build/release")
    parser.add_argument("--only", default="", choices=["", "images", "gpt"])
    parser.add_argument(
        "--pictures", type=int, default=1600, help="and pieces of text: two ranks make a sixteenth as many steps"
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds of the five runs by hand, and profiles")
    parser.add_argument("--minutes", type=float, default=7, help="of all runs of one script together, about")
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
