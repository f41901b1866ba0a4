"""What the scheduler's decisions cost: a table, and bench/out/sched.json.

python bench/bench_sched.py [--build build/release] [--runs 5]
"""

import argparse
import json
import subprocess
from pathlib import Path

from common import ROOT, shown, spread, write

RATE = 2e9  # bytes a second that come from the bucket

SETTINGS = [  # chunk, samples in it, batch, chunks in memory, loaders, policy
    (8 << 20, 75, 256, 65536, 4, "next-use"),
    (8 << 20, 75, 256, 65536, 4, "lru"),
    (8 << 20, 75, 256, 4096, 1, "next-use"),
    (64 << 10, 1, 256, 65536, 4, "next-use"),
    (64 << 10, 1, 256, 65536, 1, "next-use"),
]


def measure(program, setting, runs):
    rows = []
    for _ in range(runs):
        done = subprocess.run([program, *map(str, setting)], check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
    return {name: spread([row[name] for row in rows]) for name in rows[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    subprocess.run(["ninja", "-C", options.build, "bench/bench_sched"], check=True, stdout=subprocess.DEVNULL)
    program = str(Path(options.build) / "bench" / "bench_sched")

    print("CPU time of one core, a step for every event, half of the data in memory: median (min … max)")
    print(
        "  chunk    loaders  in memory  policy    eviction, µs          a chunk, µs           share of a core at 2 GB/s"
    )
    result = []
    for setting in SETTINGS:
        row = measure(program, setting, options.runs)
        chunk, _, _, kept, lanes, policy = setting
        share = 100 * RATE / chunk * (row["chunk_us"]["median"] + row["planning_us"]["median"]) / 1e6
        print(
            f"  {chunk >> 10:5} KiB  {lanes:5}  {kept:9}  {policy:8}  {shown(row['eviction_us'], 2):20}  "
            f"{shown(row['chunk_us'], 1):20}  {share:.2f} %, of it planning "
            f"{100 * RATE / chunk * row['planning_us']['median'] / 1e6:.2f} %"
        )
        result.append({"setting": setting, "share_percent": share, **row})
    print("  (aims: an eviction 20 µs at 65,536 chunks and 4 loaders; 10 % of a core at 8 MiB)")
    write("sched", {"settings": result})


if __name__ == "__main__":
    main()
