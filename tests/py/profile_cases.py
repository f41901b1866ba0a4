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
PARTS = ("fetch", "prepare", "copy", "communication", "late")


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


def wish_of(case, steps, account=""):
    """The script sleeps for each of a batch's two samples."""
    wish = {
        name: ms / 1000 / (2 if name in ("read", "transform") else 1) for name, ms in case.items() if name != "workers"
    }
    return {**wish, "workers": case.get("workers", 0), "steps": steps, "compute": COMPUTE_S, "account": str(account)}


def last(ranks, i, name):
    """When the last rank was there, and which one that is."""
    return max((steps[i][name], rank) for rank, steps in enumerate(ranks))


def truth_of(accounts, workers):
    """Seconds of a step by part, as the script itself tells: when its ranks got where, by one clock, and what they slept. A part of
    the step is what lies between the last rank's coming to its beginning and to its end. The first two steps are warm-up. What is
    waited for a batch and not slept in reads is preparing: transforms, and the loader's own work."""
    ranks = [account["steps"] for account in accounts]
    steps = range(2, min(map(len, ranks)))
    truth = dict.fromkeys((*PARTS, "step"), 0.0)
    late = [0.0] * len(ranks)
    for i in steps:
        start, (begun, rank), (copied, _) = (
            last(ranks, i - 1, "ended")[0],
            last(ranks, i, "begun"),
            last(ranks, i, "copied"),
        )
        truth["step"] += last(ranks, i, "ended")[0] - start
        read = ranks[rank][i].get("fetch", 0) - ranks[rank][i - 1].get("fetch", 0)
        truth["fetch"] += read
        truth["prepare"] += begun - start - read
        truth["copy"] += copied - begun
        if len(ranks) > 1:
            truth["communication"] += last(ranks, i, "exchanged")[0] - last(ranks, i, "arrived")[0]
            first, second = sorted((steps[i]["arrived"], rank) for rank, steps in enumerate(ranks))[-2:]
            late[second[1]] += second[0] - first[0]
    truth = {part: seconds / len(steps) for part, seconds in truth.items()}
    truth["late"] = max(late) / len(steps)
    if workers:  # they sleep beside the training, which waits for what is longer than its own
        waited = truth["fetch"] + truth["prepare"]
        alone = accounts[0]["workers_prepared"] / len(ranks[0]) / workers
        truth["prepare"] = min(waited, max(0.0, alone - (truth["step"] - waited)))
        truth["fetch"] = waited - truth["prepare"]
    return truth


def run(leat, case, ranks, folder, steps=60):
    """(shares of the step by part as reported, the part that is named first, the same shares by the script's own account, its step)."""
    out = Path(folder) / "report.json"
    account = Path(folder) / "account"
    script = [str(TRAIN), json.dumps(wish_of(case, steps, account))]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    command = [leat, "profile", "-o", out, "--", sys.executable, *launch, *script]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, check=True)
    report = json.loads(out.read_text())
    observed = report["runs"][0]
    part_s = observed["parts_s"]
    shares = {part: part_s[part] / observed["step_s"][0] for part in PARTS if part != "late"}
    shares["prepare"] += part_s["input"] / observed["step_s"][0]
    shares["late"] = max(rank["late_s"] for rank in report["ranks"]) / observed["step_s"][0] if ranks > 1 else 0.0
    said = re.search(r"^leat: (\w+): [0-9.]+ % of", done.stderr, flags=re.M)
    first = said.group(1) if said else "nothing"
    if "holds the others up" in done.stderr and shares["late"] > max(shares[part] for part in PARTS if part != "late"):
        first = "late"
    truth = truth_of(
        [json.loads(Path(f"{account}{rank}.json").read_text()) for rank in range(ranks)], case.get("workers", 0)
    )
    step_s = truth.pop("step")
    return shares, first, {part: seconds / step_s for part, seconds in truth.items()}, step_s


def judge(case, found):
    """(by how many points each part is off, whether the right cause came first)."""
    shares, first, truth, _ = found
    off = {part: 100 * (shares[part] - truth[part]) for part in PARTS}
    return off, first == max(truth, key=truth.get)
