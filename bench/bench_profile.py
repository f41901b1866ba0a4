"""What `leat profile` costs the script that it follows: processor time of the training thread per step, with and without the
observer, in turn, and the least of many stretches of each (a busy machine only adds).

    make bench-profile
    make bench-profile BENCH_PROFILE=--cases          # injected stalls beside what is reported
    make bench-profile BENCH_PROFILE="--cases 0:12"   # some of the fifty
"""

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


def stalls():
    sys.path.insert(0, str(ROOT / "tests" / "py"))
    import profile_cases

    leat = ROOT / "build/release/src/cli/leat"
    off, right, count, base = [], 0, 0, {}
    print("| injected, ms a step | ranks | step, ms | first | worst part is off by, points |")
    print("| --- | --- | --- | --- | --- |")
    first, _, last = (sys.argv[sys.argv.index("--cases") + 1 :] or [":"])[0].partition(":")
    for case, ranks in profile_cases.cases()[int(first or 0) : int(last or 50)]:
        with tempfile.TemporaryDirectory() as folder:
            if ranks not in base:
                base[ranks] = profile_cases.base_of(profile_cases.run(leat, {}, ranks, folder, steps=100))
            found = profile_cases.run(leat, case, ranks, folder, steps=100)
        points, first = profile_cases.judge(case, found, base[ranks])
        off.append(points)
        right, count = right + first, count + 1
        what = ", ".join(f"{name} {value}" for name, value in case.items())
        print(
            f"| {what} | {ranks} | {found[2]:.1f} | {found[1]}{'' if first else ' (wrong)'} | {points:.2f} |",
            flush=True,
        )
    within = sum(points <= 1 for points in off)
    print(f"the right cause first in {right} of {count}; within 1 point {within}, the worst {max(off):.1f}")


def main():
    if "--cases" in sys.argv[1:]:
        stalls()
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
