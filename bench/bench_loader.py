"""The loader's figures: opening, the first batch, an epoch at the line's rate, next(), CPU and memory.

python bench/bench_loader.py [--build build/release] [--gb 2] [--runs 3]
"""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from common import ROOT, scratch, serving, shown, spread, table, write

LINE = 400e6
LATENCY = 0.05
SAMPLE = 100_000
BATCH = 256
WINDOW = 8


def rank(url, ram, first_only):
    """In a process of its own: one epoch of bytes, measured from the rank's side."""
    import resource

    import leat
    import numpy  # noqa: F401 - a training program has it long before it opens a loader

    start = time.monotonic()
    loader = leat.Loader(
        url,
        batch_size=BATCH,
        shuffle=True,
        window=WINDOW,
        ram=ram,
        last="short",
        as_numpy=True,
        linger="100ms",
        fields={"data": leat.bytes("bin"), "index": leat.index()},
    )
    opened = time.monotonic() - start
    nexts, arrivals, total, first, before = [], [], 0, 0.0, 0.0
    for data, index in loader:
        now = time.monotonic()
        if not first:
            first = now - start
            cpu = resource.getrusage(resource.RUSAGE_SELF)
            before = cpu.ru_utime + cpu.ru_stime
            if first_only:
                break
        total += memoryview(data._data).nbytes
        arrivals.append((now - start, total))
        del data, index
    stats = loader.stats()
    status = Path(f"/proc/{stats['agent_pid']}/status").read_text()
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    used = cpu.ru_utime + cpu.ru_stime - before
    # next() of a batch that is there: wait for the ring to fill, then take one
    if not first_only:
        loader.set_epoch(1)
        core = loader._core
        for _ in range(20):
            time.sleep(0.05)
            began = time.perf_counter()
            batch = core.next()
            nexts.append(time.perf_counter() - began)
            del batch
    print(
        json.dumps(
            {
                "opened_s": opened,
                "first_s": first,
                "arrivals": arrivals,
                "cpu_s": used,
                "next_us": sorted(nexts)[len(nexts) // 2] * 1e6 if nexts else None,
                "agent_peak": peak,
                "ring": stats.get("ring_bytes", 0),
            }
        )
    )
    loader.close()


def start_rank(build, env, *args):
    env = {
        **env,
        "PYTHONPATH": str(build / "python"),
        "LEAT_AGENT": str(build / "src" / "cli" / "leat"),
    }
    done = subprocess.run(
        [sys.executable, __file__, "--rank", *args], env=env, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def ask_server(env, path):
    with urllib.request.urlopen(env["AWS_ENDPOINT_URL"] + path) as answer:
        return answer.read().decode()


def forget_requests(env):
    ask_server(env, "/-/stats?reset")


def requests_before_chunks(env):
    """Requests for the pointer, the root and whatever else opening needed; chunks come after it."""
    lines = [json.loads(line) for line in ask_server(env, "/-/log").splitlines()]
    return sum("leat/chunks/" not in line.get("key", "") for line in lines)


def make_data(build, folder, total):
    """A bucket with a packed dataset of samples of SAMPLE bytes that do not compress."""
    raw = folder / "raw"
    raw.mkdir()
    block = os.urandom(SAMPLE)
    for i in range(int(total // SAMPLE)):
        (raw / f"{i:07}.bin").write_bytes(i.to_bytes(8, "little") + block[8:])
    bucket = folder / "buckets" / "data"
    bucket.mkdir(parents=True)
    subprocess.run([str(build / "src" / "cli" / "leat"), "pack", str(raw), str(bucket / "set"), "--quiet"], check=True)
    subprocess.run(["rm", "-rf", str(raw)], check=True)
    return folder / "buckets"


def bytes_touched(build, dataset):
    """Of the chunks that hold a sample of the first batch."""
    leat = str(build / "src" / "cli" / "leat")
    order = [leat, "order", "--window", str(WINDOW), "--count", str(BATCH), str(dataset)]
    lines = subprocess.run(order, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    sizes = sorted(path.stat().st_size for path in dataset.glob("leat/chunks/*/*"))
    return len({line.split("\t")[2] for line in lines}) * sizes[len(sizes) // 2]


def rate_of(run):
    """Bytes a second from the opening of the dataset to the last batch of the epoch, the climb included."""
    last, total = run["arrivals"][-1]
    return total / (last - run["opened_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rank", nargs=3)
    options = parser.parse_args()
    if options.rank:
        rank(options.rank[0], options.rank[1], options.rank[2] == "first")
        return
    build = Path(options.build)
    total = options.gb * 1e9
    ram = 512 << 20
    rows = []
    opening = []
    with scratch(2 * total) as folder:
        buckets = make_data(build, folder, total)
        limits = ["--latency", "50ms", "--bandwidth", "400MB/s", "--connection-bandwidth", "25MB/s"]
        with serving(build, buckets, *limits) as env:
            for _ in range(options.runs):
                forget_requests(env)
                first = start_rank(build, env, "s3://data/set", str(ram), "first")
                opening.append(requests_before_chunks(env))
                whole = start_rank(build, env, "s3://data/set", str(ram), "all")
                rows.append({"first": first, "whole": whole})
        bound = 3 * LATENCY + bytes_touched(build, buckets / "data" / "set") / LINE
    rate = spread([rate_of(r["whole"]) / LINE * 100 for r in rows])
    result = {
        "rate_percent_of_line": rate,
        "first_batch_s": spread([r["first"]["first_s"] for r in rows]),
        "first_batch_bound_s": bound,
        "open_requests": max(opening),
        "next_us": spread([r["whole"]["next_us"] for r in rows]),
        "rank_cpu_percent": spread([100 * r["whole"]["cpu_s"] / r["whole"]["arrivals"][-1][0] for r in rows]),
        "agent_peak_over_budget_mb": spread(
            [(r["whole"]["agent_peak"] - ram - r["whole"]["ring"]) / 1e6 for r in rows]
        ),
    }
    print(f"{options.gb:g} GB of samples of {SAMPLE} bytes; bucket: 50 ms, 25 MB/s a connection, 400 MB/s in all")
    table(
        ["", "median (min … max)", "aim"],
        [
            ["epoch 1, % of the line", shown(rate, 1), "≥ 90"],
            ["first batch, s", shown(result["first_batch_s"], 2), f"≤ {1.3 * bound:.2f}"],
            ["requests to open the dataset", max(opening), "≤ 3"],
            ["next() of a ready batch, µs", shown(result["next_us"], 1), "≤ 20"],
            ["a rank's own CPU, % of a core", shown(result["rank_cpu_percent"], 1), "≤ 2"],
            ["agent's peak over budget and ring, MB", shown(result["agent_peak_over_budget_mb"], 0), "≤ 64"],
        ],
    )
    write("loader", result)


if __name__ == "__main__":
    main()
