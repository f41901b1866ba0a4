"""Fifty trainings with injected stalls, alone and in pairs: bench_profile.py prints the table, test_profile_cases.py runs them."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

TRAIN = Path(__file__).with_name("profile_train.py")
# What is asked of the script, and the part of the step that it must show in.
CAUSES = {"read": "fetch", "transform": "prepare", "copy": "copy", "link": "communication", "late": "late"}
COMPUTE_S = 0.005  # of the script itself, asleep as well
OTHERS = ("fetch", "prepare", "input", "copy", "communication")


def cases():
    """[(wish, ranks)]: sleeps in milliseconds per step, long ones and short ones."""
    made = []
    for cause, ms in itertools.product(CAUSES, (10, 20, 40)):
        made.append(({cause: ms}, 2 if cause in ("link", "late") else 1))
    for cause, ms in itertools.product(("read", "transform", "copy"), (15, 30)):
        made.append(({cause: ms}, 2))
    for pair in itertools.combinations(CAUSES, 2):
        ranks = 2 if {"link", "late"} & set(pair) else 1
        made.append(({pair[0]: 40, pair[1]: 15}, ranks))
        made.append(({pair[0]: 15, pair[1]: 40}, ranks))
    for cause, ms in itertools.product(("read", "transform", "copy"), (40, 60)):
        made.append(({cause: ms, "workers": 1}, 1))
    made.extend([({"read": 60, "transform": 20, "workers": 2}, 1), ({"transform": 60, "read": 20, "workers": 2}, 1)])
    made.append(({"read": 25, "late": 50}, 2))
    return made


def wish_of(case, steps):
    """The script sleeps for each of a batch's two samples."""
    wish = {
        name: ms / 1000 / (2 if name in ("read", "transform") else 1) for name, ms in case.items() if name != "workers"
    }
    return {**wish, "workers": case.get("workers", 0), "steps": steps, "compute": COMPUTE_S}


def expected(case, slept):
    """Milliseconds of a step by part. `slept`: what the ranks really slept, as they say themselves."""
    workers = case.get("workers", 0)
    ms = {part: max((rank.get(part, 0.0) for rank in slept), default=0.0) for part in (*OTHERS, "late")}
    if workers:  # they sleep beside the training, which waits for what is longer than its own
        ms["fetch"], ms["prepare"] = float(case.get("read", 0)), float(case.get("transform", 0))
        own = ms["copy"] + 1000 * COMPUTE_S
        waited = max(0.0, (ms["fetch"] + ms["prepare"]) / workers - own)
        ms["prepare"] = min(waited, max(0.0, ms["prepare"] / workers - own))
        ms["fetch"] = waited - ms["prepare"]
    return ms


def run(leat, case, ranks, folder, steps=60):
    """(shares of the step by part, the part that is named first, the step in ms, what the ranks slept of it)."""
    out = Path(folder) / "report.json"
    script = [str(TRAIN), json.dumps(wish_of(case, steps))]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    command = [leat, "profile", "-o", out, "--", sys.executable, *launch, *script]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, check=True)
    report = json.loads(out.read_text())
    observed = report["runs"][0]
    step = observed["step_s"][0]
    shares = {part: observed["parts_s"][part] / step for part in OTHERS}
    shares["late"] = max(rank["late_s"] for rank in report["ranks"]) / step if ranks > 1 else 0.0
    said = re.search(r"^leat: (\w+): [0-9.]+ % of", done.stderr, flags=re.M)
    first = said.group(1) if said else "nothing"
    if "holds the others up" in done.stderr and shares["late"] > max(shares[part] for part in OTHERS):
        first = "late"
    truths = [json.loads(line) for line in re.findall(r"truth (\{.*\})", done.stderr)]
    slept = [{part: 1e3 * share * t["step_s"] for part, share in t["shares"].items()} for t in truths]
    return shares, first, step * 1e3, slept


def base_of(found):
    """Milliseconds of each part of a step without any stall: all-reduces and transforms take some time of their own."""
    shares, _, step_ms, _ = found
    return {part: share * step_ms for part, share in shares.items()}


def judge(case, found, base):
    """(points by which the worst part is off, whether the right cause came first)."""
    shares, first, step_ms, slept = found
    truth = expected(case, slept)
    parts = [part for part in (*OTHERS, "late") if part != "input"]
    if case.get("workers"):
        base = dict.fromkeys(base, 0.0)  # they prepare beside the step
    off = max(abs(shares[part] - (truth[part] + base[part]) / step_ms) for part in parts)
    return 100 * off, first == max(truth, key=truth.get)
