"""What `leat profile --time` says of scripts that were not edited, beside five full runs by hand.

python bench/bench_scripts.py [--leat PATH] [--only images|gpt] [--pictures 1600] [--epochs 5] [--profile-epochs 2] [--time 40s] [--workers 0]

bench/scripts has two trainings in the usual style: ResNet-18 on a torchvision ImageFolder, and a small GPT on a file of tokens.
By hand means what somebody would do who has read how stalls are measured: the script is copied, edited and run to its end, on two
ranks unless it says otherwise, and its own line about each epoch is read. The first epoch is warm-up.

    as it is                the script
    one rank, synthetic     batches kept in memory, one process: computing alone
    synthetic               batches kept in memory
    cached                  every file is read once before the training
    cold                    files are dropped from the page cache before each epoch

Interconnect is synthetic less one rank, preparing cached less synthetic, fetching cold less cached: all as shares of a cold step.
The profiled script is the one that was not edited, for --profile-epochs.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, table, write

SCRIPTS = ROOT / "bench" / "scripts"
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
        Image.fromarray(coarse).resize((320, 240), Image.BICUBIC).save(path, quality=90)
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


def by_hand(script, data, ranks, options, env):
    """Seconds of a step over all epochs but the first, and what the run took."""
    start = time.perf_counter()
    command = [*launch(ranks), script, data, "--epochs", str(options.epochs), "--workers", str(options.workers)]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    steps = [float(ms) / 1e3 for ms in re.findall(r"([\d.]+) ms a step", done.stdout)]
    return sum(steps[1:]) / len(steps[1:]), time.perf_counter() - start


def profiled(leat, script, data, options, folder, env):
    """The report of the script as it is, and what that took."""
    start, out = time.perf_counter(), folder / "report.json"
    command = [leat, "profile", "--time", options.time, "-o", out, "--", *launch(2), script, data]
    command += ["--epochs", options.profile_epochs, "--workers", options.workers]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(done.stderr, flush=True)
    return json.loads(out.read_text()), time.perf_counter() - start


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
    if kind == "images":
        data = make_pictures(folder / "pictures", options.pictures)
    else:
        data = make_tokens(folder / "tokens.bin", options.pictures)
    os.sync()  # what is not written yet cannot be dropped
    script = SCRIPTS / f"train_{kind}.py"
    copy, steps, took = folder / f"edited_{kind}.py", {}, 0.0
    for name in ("as it is", "one rank, synthetic", "synthetic", "cached", "cold"):
        copy.write_text(edited(kind, name, script.read_text()))
        steps[name], seconds = by_hand(copy, data, 1 if name.startswith("one rank") else 2, options, env)
        took += seconds
        print(
            f"  {kind}, {name}: {1e3 * steps[name]:.2f} ms a step, {seconds:.0f} s, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    report, seconds = profiled(leat, script, data, options, folder, env)
    said = {run["mode"]: run["step_s"][0] for run in report["runs"]}
    names = {"single": "one rank, synthetic", "observed": "as it is"}
    said = {names.get(mode, mode): step for mode, step in said.items()}
    truth, found = shares(steps), shares(said)
    table(
        ["run", "by hand, ms", "profiled, ms"],
        [[name, f"{1e3 * s:.2f}", f"{1e3 * said[name]:.2f}" if name in said else "none"] for name, s in steps.items()],
    )
    rows = [[p, f"{100 * t:.1f} %", *((f"{100 * found[p]:.1f} %", f"{100 * (found[p] - t):+.1f}") if p in found else ("none", ""))] for p, t in truth.items()]  # fmt: skip
    table(["of a cold step", "by hand", "profiled", "points"], rows)
    print(
        f"  five runs by hand took {took:.0f} s, the profile {seconds:.0f} s: {seconds / took:.2f} of it; load {os.getloadavg()[0]:.1f}\n"
    )
    return {
        "by_hand_s": steps,
        "profiled_s": said,
        "truth": truth,
        "found": found,
        "hand_took_s": took,
        "profile_took_s": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leat", default="", help="the command, where it is not in build/release")
    parser.add_argument("--only", default="", choices=["", "images", "gpt"])
    parser.add_argument(
        "--pictures", type=int, default=1600, help="and pieces of text: two ranks make a sixteenth as many steps"
    )
    parser.add_argument("--epochs", type=int, default=5, help="of each run by hand")
    parser.add_argument("--profile-epochs", type=int, default=2, help="of the script while it is profiled")
    parser.add_argument("--time", default="40s", help="of the profile's blocks")
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
