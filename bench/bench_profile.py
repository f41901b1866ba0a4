"""What `leat profile` costs the script that it follows: processor time of the training thread per step, in stretches with and
without the observer in turn, in one process (tests/py/profile_cost.py).

    make bench-profile
    make bench-profile BENCH_PROFILE=--cases          # injected stalls beside what is reported
    make bench-profile BENCH_PROFILE="--cases 0:12"   # some of the fifty
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIRS = 40


def run(workers, ranks):
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += [ROOT / "tests/py/profile_cost.py", ROOT / "src/profile/observer", workers, PAIRS]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def stalls(leat, which):
    sys.path.insert(0, str(ROOT / "tests" / "py"))
    import profile_cases

    right, rows = 0, []
    first, _, last = which.partition(":")
    print(
        "| injected, ms a step | ranks | step, ms | first | worst part, points off | signed: fetch, prepare, copy, communication, late |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for case, ranks in profile_cases.cases()[int(first or 0) : int(last or 50)]:
        with tempfile.TemporaryDirectory() as folder:
            found = profile_cases.run(leat, case, ranks, folder, steps=100)
        off, good = profile_cases.judge(case, found)
        right += good
        rows.append(off)
        what = ", ".join(f"{name} {value}" for name, value in case.items())
        signed = ", ".join(f"{off[part]:+.2f}" for part in profile_cases.PARTS)
        worst = max(map(abs, off.values()))
        print(
            f"| {what} | {ranks} | {1e3 * found[3]:.1f} | {found[1]}{'' if good else ' (wrong)'} | {worst:.2f} | {signed} |",
            flush=True,
        )
    worst = sorted(max(map(abs, off.values())) for off in rows)
    within = sum(points <= 1 for points in worst)
    print(
        f"the right cause first in {right} of {len(rows)}; within 1 point {within}, the middle one {worst[len(worst) // 2]:.2f}, ",
        end="",
    )
    print(f"the worst {worst[-1]:.1f}; load {os.getloadavg()[0]:.1f}")
    for part in profile_cases.PARTS:
        print(f"  {part}: {sum(off[part] for off in rows) / len(rows):+.2f} in the mean")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases", nargs="?", const=":", help="injected stalls: all fifty, or those from A up to B (A:B)"
    )
    parser.add_argument(
        "--leat", default=ROOT / "build/release/src/cli/leat", help="the command, where it is not in a build folder"
    )
    options = parser.parse_args()
    if options.cases:
        stalls(options.leat, options.cases)
        return
    print("| loader | a step's processor time | watching adds, middle (quarters) of pairs | functions called |")
    print("| --- | --- | --- | --- |")
    for workers, ranks in ((0, 1), (2, 1), (0, 2)):
        said = run(workers, ranks)
        added = [1e6 * (watched - plain) for plain, watched in zip(said["plain"], said["watched"], strict=True)]
        low, middle, high = statistics.quantiles(added, n=4)
        print(
            f"| {workers or 'no'} workers, {ranks} ranks | {1e6 * statistics.median(said['plain']):.0f} µs | "
            f"{middle:.0f} µs ({low:.0f} … {high:.0f}) | {said['plain_calls']:.0f} + {said['watched_calls'] - said['plain_calls']:.0f} |",
            flush=True,
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
