"""What a cache is worth: bytes from the bucket and the line's load in epochs 2 …, for caches of 10 to 90 % of the data.

python bench/bench_cache.py [--build build/release] [--mb 200] [--epochs 3] [--fractions 10,25,50,75,90]

Three kinds: in memory alone, on disk alone (with just enough memory to work in), both in equal parts. The bound is
dataset − c, c the budget less the live window and what is fetched ahead; beside it an LRU of the whole budget over the
same order, counted chunk by chunk.
"""

import argparse
import collections
import json
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, make_data, scratch, serving, table, write

MIB = 1 << 20
SAMPLE = 100_000
CHUNK = MIB
BATCH = 32
WINDOW = 8
LINE = 50e6  # slow enough that nothing else on a busy machine is the limit
WORK = 24 * MIB  # memory that is enough to work in: the window, what is prepared, what is on its way
AHEAD = 64 * MIB  # fetched ahead at most by such a line, or a quarter of what is not promised


def rank(url, ram, cache, folder, epochs):
    """In a process of its own: epochs of bytes, what came from where in each, and how long it took."""
    import leat

    more = {"cache_dir": folder, "cache": int(cache)} if int(cache) else {}
    loader = leat.Loader(
        url,
        batch_size=BATCH,
        window=WINDOW,
        ram=int(ram),
        last="short",
        fields={"data": leat.bytes("bin")},
        as_numpy=True,
        linger="100ms",
        **more,
    )
    rows, before = [], loader.stats()
    for _ in range(int(epochs)):
        began = time.monotonic()
        for (data,) in loader:
            del data
        now = loader.stats()
        row = {k: now["bytes_by_source"][k] - before["bytes_by_source"][k] for k in ("bucket", "disk", "ram")}
        row["seconds"] = time.monotonic() - began
        row["refetched"] = now["chunks_refetched"] - before["chunks_refetched"]
        rows.append(row)
        before = now
    print(json.dumps({"epochs": rows, "agent_pid": now["agent_pid"]}))
    loader.close()


def run_rank(build, env, *args):
    env = {**env, "PYTHONPATH": str(build / "python"), "LEAT_AGENT": str(build / "src" / "cli" / "leat")}
    command = [sys.executable, __file__, "--rank", *map(str, args)]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(done.stdout)
    while Path(f"/proc/{result['agent_pid']}").exists():
        time.sleep(0.05)
    return result["epochs"]


def lru_bytes(build, dataset, budget, epochs, chunk_bytes):
    """Bytes per epoch that an LRU of chunks would fetch, from the second epoch on."""
    cache, misses = collections.OrderedDict(), []
    leat = str(build / "src" / "cli" / "leat")
    for epoch in range(epochs):
        order = [leat, "order", "--window", str(WINDOW), "--epoch", str(epoch), str(dataset)]
        lines = subprocess.run(order, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        missed = 0
        for line in lines:
            chunk = line.split("\t")[2]
            if chunk not in cache:
                missed += 1
                cache[chunk] = True
                if len(cache) * chunk_bytes > budget:
                    cache.popitem(last=False)
            cache.move_to_end(chunk)
        misses.append(missed * chunk_bytes)
    return sum(misses[1:]) / len(misses[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--mb", type=float, default=200)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--fractions", default="10,25,50,75,90")
    parser.add_argument("--rank", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(*options.rank)
        return
    build = Path(options.build)
    total = options.mb * 1e6
    rows, shown = [], []
    with scratch(3 * total) as folder:
        dataset = make_data(build, folder, total, SAMPLE, "--chunk-size", str(CHUNK)) / "data" / "set"
        chunks = [path.stat().st_size for path in (dataset / "leat" / "chunks").rglob("*") if path.is_file()]
        size = sum(chunks)
        live = WINDOW * size / len(chunks)
        limits = ["--latency", "10ms", "--bandwidth", f"{LINE / 1e6:.0f}MB/s"]
        with serving(build, dataset.parents[1], *limits) as env:
            env["LEAT_RUNTIME_DIR"] = str(folder)  # nobody else's agent
            for percent in map(int, options.fractions.split(",")):
                budget = int(size * percent / 100)
                lru = lru_bytes(build, dataset, budget, options.epochs, size / len(chunks))
                for kind in ("ram", "disk", "both"):
                    ram = {"ram": budget, "disk": WORK, "both": budget // 2}[kind]
                    ram = max(ram, int(live + 2 * BATCH * SAMPLE))
                    disk = {"ram": 0, "disk": budget, "both": budget - budget // 2}[kind]
                    epochs = run_rank(
                        build, env, "s3://data/set", ram, disk, folder / f"{kind}{percent}", options.epochs
                    )
                    later = epochs[1:]
                    bucket = sum(e["bucket"] for e in later) / len(later)
                    seconds = sum(e["seconds"] for e in later) / len(later)
                    ahead = min(AHEAD, max(0, ram - live) / 4)
                    kept = disk + max(0, ram - live - ahead)
                    row = {
                        "percent": percent,
                        "kind": kind,
                        "ram": ram,
                        "disk": disk,
                        "bucket": bucket,
                        "bound": max(0, size - kept),
                        "least": max(0, size - budget),
                        "lru": lru,
                        "line_percent": 100 * bucket / seconds / LINE,
                        "refetched": sum(e["refetched"] for e in later),
                        "epochs": epochs,
                    }
                    rows.append(row)
                    shown.append(
                        [
                            f"{percent} % {kind}",
                            f"{bucket / 1e6:.0f}",
                            f"{bucket / row['bound']:.3f}" if row["bound"] else "–",
                            f"{bucket / max(1, row['least']):.3f}",
                            f"{lru / max(1, row['least']):.2f}",
                            f"{row['line_percent']:.0f}",
                        ]
                    )
                    subprocess.run(["rm", "-rf", str(folder / f"{kind}{percent}")], check=True)
    print(
        f"{size / 1e6:.0f} MB in {len(chunks)} chunks, window {WINDOW}; bucket: 10 ms, {LINE / 1e6:.0f} MB/s; epochs 2 … {options.epochs}"
    )
    head = ["cache", "MB an epoch", "÷ (d − c)", "÷ (d − budget)", "LRU ÷ (d − budget)", "line, %"]
    table(head, shown)
    print("  aims: ÷ (d − c) at most 1.02, line at least 97 %; c: budget less window and what is fetched ahead")
    write("cache", {"dataset": size, "chunks": len(chunks), "window": WINDOW, "line": LINE, "rows": rows})


if __name__ == "__main__":
    main()
