"""How fast tar shards are indexed, beside reading them at all: a table, and bench/out/tar.json.

python bench/bench_tar.py [--build build/release] [--gb 10] [--shards 1] [--member 110000] [--runs 5] [--folder /var/tmp]

`cat` is the rate at which the file can be read by one process, `sum` the same with XXH3 of every byte, which indexing
computes too. The three take turns. Cold: the shards' pages are dropped from the page cache before each reading. CPU time
depends less than the rate on what else the machine does.
"""

import argparse
import io
import json
import os
import random
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

from common import ROOT, shown, spread, table, write


def write_shards(folder, total, count, member):
    """Pictures that are noise, with a label each."""
    draw = random.Random(1)
    pool = draw.randbytes(64 << 20)
    paths, number = [], 0
    for shard in range(count):
        path = folder / f"shard-{shard:04}.tar"
        paths.append(path)
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            while tar.offset < total // count:
                size = draw.randrange(member // 2, member * 3 // 2)
                at = draw.randrange(len(pool) - size)
                for ending, data in (("cls", b"%d" % (number % 1000)), ("jpg", pool[at : at + size])):
                    info = tarfile.TarInfo(f"{number:09}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
                number += 1
    os.sync()
    return paths, number


def drop(paths):
    for path in paths:
        with open(path, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(command):
    """(seconds, CPU seconds, most memory in MiB, what it printed) of a command that must succeed."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with status {child.returncode}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--member", type=int, default=110_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/var/tmp", help="on the disk that is read from")
    options = parser.parse_args()
    leat = str(Path(options.build) / "src" / "cli" / "leat")
    subprocess.run(
        ["ninja", "-C", options.build, "src/cli/leat", "bench/sum_files"], check=True, stdout=subprocess.DEVNULL
    )
    with tempfile.TemporaryDirectory(prefix="leat-bench-", dir=options.folder) as made:
        folder = Path(made)
        paths, samples = write_shards(folder, int(options.gb * 1e9), options.shards, options.member)
        size = sum(p.stat().st_size for p in paths)
        names = [str(p) for p in paths]
        ways = {"cat": ["sh", "-c", 'cat "$@" >/dev/null', "sh", *names]}
        ways["sum"] = [str(Path(options.build) / "bench" / "sum_files"), *names]
        ways["leat index"] = [leat, "index", "--json", "--replace", "--type", "cls=int", *names, str(folder / "ds")]
        result = {"bytes": size, "samples": samples, "shards": len(paths), "rows": []}
        rows = []
        for state in ("cached", "cold"):
            took = {name: [] for name in ways}
            cpu = {name: [] for name in ways}
            subprocess.run(ways["cat"], check=True)
            for _ in range(options.runs):
                for name, command in ways.items():
                    if state == "cold":
                        drop(paths)
                    seconds, used, memory, out = timed(command)
                    took[name].append(size / seconds / 1e9)
                    cpu[name].append(used / size * 1e9)
                    if name == "leat index":
                        assert json.loads(out)["samples"] == samples
                        result["peak_mib"] = max(memory, result.get("peak_mib", 0))
            base = spread(took["cat"])["median"]
            for name, rates in took.items():
                figures = spread(rates)
                share = figures["median"] / base
                rows.append(
                    [f"{name}, {state}", shown(figures, 2), f"{100 * share:.0f} %", shown(spread(cpu[name]), 2)]
                )
                result["rows"].append(
                    {
                        "way": name,
                        "state": state,
                        "gb_per_s": figures,
                        "of_cat": share,
                        "cpu_s_per_gb": spread(cpu[name]),
                    }
                )
    print(
        f"{size / 1e9:.1f} GB in {len(paths)} shards, {samples:,} samples of two members; GB/s, median of {options.runs}"
    )
    table(["", "GB/s", "of cat", "CPU s/GB"], rows)
    print(f"most memory resident while indexing: {result['peak_mib']:.0f} MiB")
    write("tar", result)


if __name__ == "__main__":
    main()
