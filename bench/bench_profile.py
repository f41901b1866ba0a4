"""What `leat profile` costs the script that it follows: processor time of the training thread per step, with and without the
observer, in turn, and the least of many stretches of each (a busy machine only adds).

    make bench-profile
    make bench-profile BENCH_PROFILE=--cases          # injected stalls beside what is reported
    make bench-profile BENCH_PROFILE="--cases 0:12"   # some of the fifty
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3

CHILD = """
import sys, time
folder, observer, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
if folder != "-":
    sys.path.insert(0, observer)
    import observe
    observe.start(folder)
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
STRETCH, COUNT = 100, 40
class Data(Dataset):
    def __len__(self): return 4 * STRETCH
    def __getitem__(self, i): return torch.ones(16), i % 3
net = torch.nn.Linear(16, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
times = []
for _ in range(COUNT):
    iterator = iter(DataLoader(Data(), batch_size=4, num_workers=workers))
    next(iterator)
    start = time.thread_time()
    for x, y in iterator:
        x, y = x.to("cpu"), y.to("cpu")
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    times.append((time.thread_time() - start) / (STRETCH - 1))
times.sort()
print(times[0], times[len(times) // 4])
"""


def run(workers, watched):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        command = [sys.executable, "-c", CHILD, folder if watched else "-", ROOT / "src/profile/observer", str(workers)]
        return [
            float(word) for word in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        ]


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
    print("| loader | a step's processor time | watched adds (least, quarter) | of a step of 10 ms |")
    print("| --- | --- | --- | --- |")
    for workers in (0, 2):
        plain, watched = [], []
        for _ in range(ROUNDS):
            plain.append(run(workers, False))
            watched.append(run(workers, True))
        least = [min(row[k] for row in watched) - min(row[k] for row in plain) for k in (0, 1)]
        print(
            f"| {workers or 'no'} workers | {min(row[0] for row in plain) * 1e6:.0f} µs | "
            f"{least[0] * 1e6:.0f} µs, {least[1] * 1e6:.0f} µs | {least[0] / 0.01 * 100:.2f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
