"""Second requests for what is late: a server that answers one request in a hundred a second late, read with and without.
A table, and bench/out/hedge.json.

python bench/bench_hedge.py [--build build/release] [--runs 3] [--reads 6000]
"""

import argparse
import json
import os
import statistics
from pathlib import Path

from common import ROOT, run_measured, scratch, serving, table, write

OBJECTS = 60
OBJECT_BYTES = 1 << 20
CONNECTIONS = 8
FAULTS = ("--latency", "10ms", "--fault", "late=0.01")


def fill(folder):
    block = os.urandom(OBJECT_BYTES - 8)
    (folder / "bucket").mkdir()
    for i in range(OBJECTS):
        (folder / "bucket" / f"{i:04}").write_bytes(i.to_bytes(8, "big") + block)


def read(build, env, reads, hedge):
    command = [build / "bench" / "read_objects", "--connections", CONNECTIONS, "--ahead", CONNECTIONS]
    command += ["--passes", reads // OBJECTS, *(["--hedge"] if hedge else []), "s3://bucket/"]
    _, _, text = run_measured(command, env)
    result = json.loads(text)
    assert result["bytes"] == reads // OBJECTS * OBJECTS * OBJECT_BYTES
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--reads", type=int, default=6000)
    args = parser.parse_args()
    runs = {False: [], True: []}
    with scratch(OBJECTS * OBJECT_BYTES) as folder, serving(args.build, folder, *FAULTS) as env:
        fill(folder)
        for _ in range(args.runs):
            for hedge in runs:
                runs[hedge].append(read(args.build, env, args.reads, hedge))
    print(f"\n{args.reads} reads of 1 MiB, {CONNECTIONS} at a time, 1 % of the answers a second late: medians of runs")
    rows = []
    result = {}
    for hedge, name in ((False, "off"), (True, "on")):
        of = {key: statistics.median(r[key] for r in runs[hedge]) for key in ("p50_s", "p99_s", "p999_s", "seconds")}
        gb = runs[hedge][0]["bytes"] / 1e9
        of["cpu_s_per_gb"] = statistics.median(r["user_s"] + r["system_s"] for r in runs[hedge]) / gb
        of["extra_bytes"] = max(r["bytes_in"] / r["bytes"] - 1 for r in runs[hedge])
        of["extra_requests"] = max(r["hedges"] / r["objects"] for r in runs[hedge])
        result[name] = of
        times = [f"{of[key] * 1e3:.0f}" for key in ("p50_s", "p99_s", "p999_s")]
        shares = [f"{100 * of[key]:.2f} %" for key in ("extra_requests", "extra_bytes")]
        rows.append([name, *times, *shares, f"{of['seconds']:.1f}", f"{of['cpu_s_per_gb']:.2f}"])
    table(["hedge", "p50 ms", "p99 ms", "p99.9 ms", "extra requests", "extra bytes", "s in all", "CPU s/GB"], rows)
    result["p999_cut"] = result["off"]["p999_s"] / result["on"]["p999_s"]
    print(f"p99.9 is cut {result['p999_cut']:.1f} x")
    write("hedge", result)


if __name__ == "__main__":
    main()
