"""`leat whatif` beside the real thing: one profiled run, what it says of others, and those others run.

python bench/bench_whatif.py [--build build/release | --leat PATH] [--steps 120] [--repeat 1] [--only TEXT] [--cpus 0,1]

A training whose storage, preparing and computing are emulated: storage by sleeping for every sample that is not cached, preparing
by arithmetic for a fixed time of a core, computing by sleeping, as a rank does while its GPU works. (A fixed number of
rounds would not do: cores of rented machines differ by a quarter from minute to minute, and no model of a training can know that.) Each setting is profiled once,
without a cache and with all cores, and asked for caches of 0 to 100 % and one or two cores. Then each of these is run, under
`leat profile` as well, so that a step means the same in both. The kernel keeps processes to cores (taskset), which are not two
threads of one. What a batch costs a core in each run is shown beside what it cost in the profiled one.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, table, write

# Milliseconds of one batch of 16 samples: fetching and preparing in one worker, computing in the rank.
SETTINGS = {
    "storage is the limit": {"fetch": 160, "prepare": 16, "compute": 12, "workers": 2},
    "cores are the limit": {"fetch": 48, "prepare": 80, "compute": 12, "workers": 4},
    "storage, then computing": {"fetch": 128, "prepare": 10, "compute": 40, "workers": 2},
    "no workers": {"fetch": 64, "prepare": 24, "compute": 20, "workers": 0},
}
CACHES = (0, 25, 50, 75, 100)

TRAIN = """
import json, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

wish = json.loads(sys.argv[1])
BATCH = 16
torch.set_num_threads(1)


def work(seconds):
    x, end = 1, time.thread_time() + seconds
    while time.thread_time() < end:
        x = (x * 1103515245 + 12345) & 0xFFFFFFFF
    return x


class Samples(Dataset):
    def __init__(self):
        self.transform = lambda i: torch.full((64,), float(work(wish["prepare"] / 1e3 / BATCH) % 7 + i % 3))

    def __len__(self):
        return BATCH * wish["steps"]

    def __getitem__(self, i):
        if (i * 2654435761 >> 7) % 100 >= wish["cache"]:
            time.sleep(wish["fetch"] / 1e3 / BATCH)
        return self.transform(i), i % 3


net = torch.nn.Linear(64, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(Samples(), batch_size=BATCH, shuffle=True, num_workers=wish["workers"], persistent_workers=wish["workers"] > 0)
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(net(x), y)
    time.sleep(wish["compute"] / 1e3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def apart(count=2):
    """CPUs that this process may use, each of a core of its own."""
    chosen, taken = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        with contextlib.suppress(OSError):
            told = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
            if told in taken:
                continue
            taken.add(told)
        chosen.append(cpu)
    return chosen[:count]


def profiled(leat, folder, setting, cache, cores, steps):
    """The report of a run."""
    script, out = folder / "train.py", folder / "report.json"
    script.write_text(TRAIN)
    wish = {**setting, "cache": cache, "steps": steps}
    command = [
        "taskset",
        "-c",
        ",".join(str(c) for c in cores),
        str(leat),
        "profile",
        "-o",
        str(out),
        "--",
    ]
    command += [sys.executable, str(script), json.dumps(wish)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"leat profile ended with status {done.returncode}: {done.stderr}")
    return json.loads(out.read_text())


def observed(report):
    return next(run for run in report["runs"] if run["mode"] == "observed")


def asked(leat, folder, report, cache, cores):
    path = folder / "asked.json"
    path.write_text(json.dumps(report))
    command = [
        str(leat),
        "whatif",
        str(path),
        "--json",
        "--cache",
        str(cache),
        "--sample-bytes",  # sleeping stands for reading
        "100kB",
        "--cores",
        str(cores),
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--repeat", type=int, default=1, help="of each run; the middle one counts")
    parser.add_argument("--only", default="", help="settings with this text in their names")
    parser.add_argument("--leat", default="", help="the command itself, where it is not in a build folder")
    parser.add_argument("--cpus", default="", help="the two cores to use")
    options = parser.parse_args()
    leat = options.leat or Path(options.build) / "src" / "cli" / "leat"
    cpus = [int(c) for c in options.cpus.split(",")] if options.cpus else apart()
    print(f"CPUs {cpus} of {os.cpu_count()}, load {os.getloadavg()[0]:.1f}", flush=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="leat-bench-") as scratch:
        folder = Path(scratch)
        for name, times in SETTINGS.items():
            if options.only not in name:
                continue
            report = profiled(leat, folder, times, 0, cpus, options.steps)
            for n in range(len(cpus), 0, -1):
                for cache in CACHES:
                    runs = [
                        profiled(leat, folder, times, cache, cpus[:n], options.steps) for _ in range(options.repeat)
                    ]
                    middle = sorted((observed(run) for run in runs), key=lambda run: run["step_s"][0])[
                        options.repeat // 2
                    ]
                    real, core = middle["step_s"][0], middle["prepare_cpu_s"] / observed(report)["prepare_cpu_s"] - 1
                    answer = asked(leat, folder, report, cache, n)
                    said, low, high = answer["step_s"]
                    rows.append(
                        {
                            "name": name, "cores": n, "cache": cache, "real_s": real, "said_s": said, "low_s": low, "high_s": high,
                            "off": said / real - 1, "inside": low <= real <= high, "limit": answer["limit"], "core": core,
                        }
                    )  # fmt: skip
    table(
        ["setting", "cores", "cache", "run, ms", "said, ms", "interval", "off", "inside", "limit", "a core's work"],
        [
            [
                row["name"],
                row["cores"],
                f"{row['cache']} %",
                f"{1e3 * row['real_s']:.1f}",
                f"{1e3 * row['said_s']:.1f}",
                f"{1e3 * row['low_s']:.1f} … {1e3 * row['high_s']:.1f}",
                f"{100 * row['off']:+.1f} %",
                "yes" if row["inside"] else "no",
                row["limit"],
                f"{100 * row['core']:+.1f} %",
            ]
            for row in rows
        ],
    )
    mean = sum(abs(row["off"]) for row in rows) / len(rows)
    inside = sum(row["inside"] for row in rows) / len(rows)
    print(
        f"\n  mean error {100 * mean:.1f} %, inside the interval {100 * inside:.0f} % of {len(rows)}; load {os.getloadavg()[0]:.1f}"
    )
    write("whatif", {"rows": rows, "mean_error": mean, "inside": inside})


if __name__ == "__main__":
    main()
