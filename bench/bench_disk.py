"""The disk cache beside dd and plain reads of the same files, and reopening it: tables, and bench/out/disk.json.

python bench/bench_disk.py [--build build/release] [--runs 5] [--mib 2048] [--folder DIR]

The folder should be on the disk that is meant; default: TMPDIR. Every run measures each way once, one after the other.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from common import ROOT, shown, spread, table, write

CHUNK = 8 << 20
THREADS = 4


def program(build, *words):
    done = subprocess.run(
        [str(Path(build) / "bench" / "bench_disk"), *map(str, words)], check=True, capture_output=True
    )
    return json.loads(done.stdout) if done.stdout else None


def run_dd(folder):
    """dd with the same flags over the same files, as many at once as the cache has threads."""
    files = sorted(folder.glob("*.seg"))
    command = f"xargs -P{THREADS} -I% dd if=% of=/dev/null bs=1M iflag=direct status=none"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, shell=True, check=True, input="\n".join(map(str, files)), text=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"bytes": sum(file.stat().st_blocks * 512 for file in files), "seconds": seconds, "cpu_s": cpu}


def reading(build, folder, mib, runs):
    chunks = (mib << 20) // CHUNK
    ways = {
        "the cache, verified": lambda: program(build, "read", folder),
        f"pread, O_DIRECT, {THREADS} threads": lambda: program(build, "plain", folder, THREADS),
        f"dd iflag=direct, {THREADS} at once": lambda: run_dd(folder),
        f"pread, page cache, {THREADS} threads": lambda: program(build, "buffered", folder, THREADS),
    }
    program(build, "fill", folder, chunks, CHUNK)
    found = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            row = way()
            found[name].append(
                {"mb_per_s": row["bytes"] / row["seconds"] / 1e6, "cpu": row["cpu_s"] / row["bytes"] * 1e9}
            )
    return {
        name: {"mb_per_s": spread([r["mb_per_s"] for r in rows]), "cpu_s_per_gb": spread([r["cpu"] for r in rows])}
        for name, rows in found.items()
    }


def ratio_of(rows, name):
    return rows["the cache, verified"]["mb_per_s"]["median"] / rows[name]["mb_per_s"]["median"]


def opening(build, parent, chunks, size, runs):
    with tempfile.TemporaryDirectory(prefix="leat-bench-disk-", dir=parent) as folder:
        program(build, "sparse", folder, chunks, size)
        rows = [program(build, "open", folder) for _ in range(runs)]
    assert all(row["bytes"] == chunks * size for row in rows)
    return {"chunks": chunks, "chunk_bytes": size, "ms": spread([1e3 * row["seconds"] for row in rows])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--folder", default=os.environ.get("TMPDIR", "/tmp"))
    options = parser.parse_args()
    subprocess.run(["ninja", "-C", options.build, "bench/bench_disk"], check=True, stdout=subprocess.DEVNULL)

    result = {}
    with tempfile.TemporaryDirectory(prefix="leat-bench-disk-", dir=options.folder) as folder:
        result["reading"] = rows = reading(options.build, Path(folder), options.mib, options.runs)
    print(f"{options.mib} MiB in chunks of 8 MiB, {options.runs} runs in turn: median (min … max)")
    table(
        ["", "MB/s", "CPU s/GB", "the cache against it"],
        [
            [name, shown(row["mb_per_s"], 0), shown(row["cpu_s_per_gb"], 3), f"{ratio_of(rows, name):.2f}"]
            for name, row in rows.items()
        ],
    )
    with tempfile.TemporaryDirectory(prefix="leat-bench-disk-", dir=options.folder) as folder:
        row = program(options.build, "write", folder, (options.mib << 20) // CHUNK, CHUNK)
    result["writing_mb_per_s"] = row["bytes"] / row["seconds"] / 1e6
    result["writing_cpu_s_per_gb"] = row["cpu_s"] / row["bytes"] * 1e9
    print(f"\nwriting: {result['writing_mb_per_s']:.0f} MB/s, {result['writing_cpu_s_per_gb']:.3f} CPU s/GB")

    sizes = ((12800, CHUNK), (1_000_000, 100_000))
    result["opening"] = [opening(options.build, options.folder, *size, options.runs) for size in sizes]
    print("\nopening a folder with 100 GB (tables without data), nothing of it in memory")
    for row in result["opening"]:
        print(f"  {row['chunks']:9,} chunks of {row['chunk_bytes']:9,} bytes   {shown(row['ms'], 1)} ms")
    write("disk", result)


if __name__ == "__main__":
    main()
