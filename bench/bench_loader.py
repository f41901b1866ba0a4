"""The loader's figures: opening, the first batch, an epoch at the line's rate, next(), CPU and memory.

python bench/bench_loader.py [--build build/release] [--gb 2] [--runs 3]
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from common import ROOT, make_data, scratch, serving, shown, spread, table, write

LINE = 400e6
LATENCY = 0.05
SAMPLE = 100_000
BATCH = 256
WINDOW = 8


def open_loader(url, ram, **more):
    import leat

    fields = {"data": leat.bytes("bin"), "index": leat.index()}
    settings = {"batch_size": BATCH, "shuffle": True, "window": WINDOW, "ram": ram, "last": "short", "as_numpy": True}
    return leat.Loader(url, fields=fields, linger="100ms", **{**settings, **more})


def rank_of_an_epoch(url, ram, first_only):
    """In a process of its own: one epoch of bytes, measured from the rank's side."""
    import resource

    import leat  # noqa: F401 - a training program has them long before it opens a loader
    import numpy  # noqa: F401

    start = time.monotonic()
    loader = open_loader(url, ram)
    opened = time.monotonic() - start
    arrivals, total, first, before = [], 0, 0.0, 0.0
    for data, index in loader:
        now = time.monotonic()
        if not first:
            first = now - start
            cpu = resource.getrusage(resource.RUSAGE_SELF)
            before = cpu.ru_utime + cpu.ru_stime
            if first_only:
                break
        total += data.nbytes
        arrivals.append((now - start, total))
        del data, index
    stats = loader.stats()
    status = Path(f"/proc/{stats['agent_pid']}/status").read_text()
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    used = cpu.ru_utime + cpu.ru_stime - before
    print(
        json.dumps(
            {
                "opened_s": opened,
                "first_s": first,
                "arrivals": arrivals,
                "cpu_s": used,
                "agent_pid": stats["agent_pid"],
                "agent_peak": peak,
                "ring": stats.get("ring_bytes", 0),
            }
        )
    )
    loader.close()


def timed_next(batches):
    began = time.perf_counter()
    batch = next(batches)
    took = time.perf_counter() - began
    del batch
    return 1e6 * took


def rank_of_nexts(url, ram):
    """In a process of its own: next() of batches that are there, two columns each, as arrays and as tensors in turn,
    and as a measure of the measuring next() of something that does nothing."""
    ways = {"nothing": itertools.repeat(())}
    loaders = {"numpy": open_loader(url, ram, batch_size=16)}
    with contextlib.suppress(ImportError):
        loaders["torch"] = open_loader(url, ram, batch_size=16, as_numpy=False)
    ways.update({name: itertools.chain.from_iterable(itertools.repeat(loader)) for name, loader in loaders.items()})
    for batches in ways.values():
        timed_next(batches)
    apart = {name: [] for name in ways}
    for _ in range(150):
        for name, batches in ways.items():
            time.sleep(0.02)  # a training step: the ring fills up, and caches fill with something else
            apart[name].append(timed_next(batches))
    in_a_row = {name: [] for name in ways}
    for _ in range(50):
        time.sleep(0.05)
        for name, batches in ways.items():
            timed_next(batches)
            in_a_row[name].append(timed_next(batches))
    pid = loaders["numpy"].stats()["agent_pid"]
    print(json.dumps({"apart": apart, "in_a_row": in_a_row, "agent_pid": pid}))
    for loader in loaders.values():
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
    result = json.loads(done.stdout)
    while Path(f"/proc/{result['agent_pid']}").exists():
        time.sleep(0.05)  # the next rank must not find its cache
    return result


def ask_server(env, path):
    with urllib.request.urlopen(env["AWS_ENDPOINT_URL"] + path) as answer:
        return answer.read().decode()


def forget_requests(env):
    ask_server(env, "/-/stats?reset")


def requests_before_chunks(env):
    """Requests for the pointer, the root and whatever else opening needed; chunks come after it."""
    lines = [json.loads(line) for line in ask_server(env, "/-/log").splitlines()]
    return sum("leat/chunks/" not in line.get("key", "") for line in lines)


def bytes_touched(build, dataset):
    """Of the chunks that hold a sample of the first batch."""
    leat = str(build / "src" / "cli" / "leat")
    order = [leat, "order", "--window", str(WINDOW), "--count", str(BATCH), str(dataset)]
    lines = subprocess.run(order, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    sizes = sorted(path.stat().st_size for path in dataset.glob("leat/chunks/*/*"))
    return len({line.split("\t")[2] for line in lines}) * sizes[len(sizes) // 2]


HOW = ("apart", "in_a_row")


def percentiles(rows, how, way):
    """Of all runs' times together."""
    times = sorted(t for r in rows for t in r["nexts"][how][way])
    return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}


def rate_of(run):
    """Bytes a second from the opening of the dataset to the last batch of the epoch, the climb included."""
    last, total = run["arrivals"][-1]
    return total / (last - run["opened_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        url, ram, what = options.rank
        if what == "nexts":
            rank_of_nexts(url, ram)
        else:
            rank_of_an_epoch(url, ram, what == "first")
        return
    build = Path(options.build)
    total = options.gb * 1e9
    ram = 512 << 20
    rows = []
    opening = []
    with scratch(2 * total) as folder:
        buckets = make_data(build, folder, total, SAMPLE)
        limits = ["--latency", "50ms", "--bandwidth", "400MB/s", "--connection-bandwidth", "25MB/s"]
        with serving(build, buckets, *limits) as env:
            for _ in range(options.runs):
                forget_requests(env)
                first = start_rank(build, env, "s3://data/set", str(ram), "first")
                opening.append(requests_before_chunks(env))
                whole = start_rank(build, env, "s3://data/set", str(ram), "all")
                nexts = start_rank(build, env, "s3://data/set", str(ram), "nexts")
                rows.append({"first": first, "whole": whole, "nexts": nexts})
        bound = 3 * LATENCY + bytes_touched(build, buckets / "data" / "set") / LINE
    rate = spread([rate_of(r["whole"]) / LINE * 100 for r in rows])
    result = {
        "rate_percent_of_line": rate,
        "first_batch_s": spread([r["first"]["first_s"] for r in rows]),
        "first_batch_bound_s": bound,
        "open_requests": max(opening),
        "next_us": {how: {way: percentiles(rows, how, way) for way in rows[0]["nexts"][how]} for how in HOW},
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
            ["a rank's own CPU, % of a core", shown(result["rank_cpu_percent"], 1), "≤ 2"],
            ["agent's peak over budget and ring, MB", shown(result["agent_peak_over_budget_mb"], 0), "≤ 64"],
        ],
    )
    print("\nnext() of a batch that is there, two columns, µs")
    table(
        ["", "median", "p99", "median", "p99"],
        [
            [way, *(f"{result['next_us'][how][way][p]:.1f}" for how in HOW for p in ("median", "p99"))]
            for way in result["next_us"]["apart"]
        ],
    )
    print("  left: 20 ms after the last one; right: one right after another. The aim is 20 at most.")
    write("loader", result)


if __name__ == "__main__":
    main()
