"""Blocks of tokens beside nanoGPT's way to read them: random places of a memmap, from the page cache and from a bucket.

python bench/bench_tokens.py [--build build/release] [--gb 4] [--runs 5] [--seconds 4]

A file of random uint16 is indexed where it lies. Batches are 64 blocks of 2048 + 1 tokens. Everything in a run has the same
single core: agent and rank of Leat, and the loop. GB/s are those of tokens as they are stored, two bytes each.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

from common import ROOT, scratch, serving, shown, spread, table, write

LENGTH = 2048
BATCH = 64
BYTES = 2 * BATCH * (LENGTH + 1)  # of a batch, as stored
LATENCY = "20ms"


def cpu_of(pid):
    """Seconds of CPU time that a process has taken."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def rate(batches, seconds, first=20, pids=()):
    """GB/s of whatever gives batches, after the first ones, and GB per second of CPU time, of the processes together."""
    for _ in range(first):
        next(batches)
    pids = (os.getpid(), *pids)
    began, before, n = time.perf_counter(), sum(map(cpu_of, pids)), 0
    while time.perf_counter() - began < seconds:
        for _ in range(10 if first else 1):
            next(batches)
            n += 1
    took, cpu = time.perf_counter() - began, sum(map(cpu_of, pids)) - before
    return {"wall": n * BYTES / took / 1e9, "cpu": n * BYTES / cpu / 1e9}


def memmap_batches(path, dtype):
    """nanoGPT's get_batch(): it makes int64 tensors, x and y. With dtype "stored" only the bytes are copied."""
    import numpy as np
    import torch

    draw = torch.Generator().manual_seed(1)
    while True:
        data = np.memmap(path, dtype=np.uint16, mode="r")  # made again for every batch, against a leak
        ix = torch.randint(len(data) - LENGTH, (BATCH,), generator=draw)
        if dtype == "stored":
            yield torch.stack([torch.from_numpy(data[i : i + LENGTH + 1]) for i in ix.tolist()])
            continue
        x = torch.stack([torch.from_numpy((data[i : i + LENGTH]).astype(np.int64)) for i in ix])
        y = torch.stack([torch.from_numpy((data[i + 1 : i + 1 + LENGTH]).astype(np.int64)) for i in ix])
        yield x, y


def bucket_batches(url, size, connections):
    """The same from a bucket: a range for each block, by one request after the other or by several threads at once."""
    import random
    import threading
    from concurrent.futures import ThreadPoolExecutor
    from http.client import HTTPConnection

    import numpy as np
    import torch

    host, path = re.match(r"http://([^/]+)(/.*)", url).groups()
    draw = random.Random(1)
    here = threading.local()

    def fetch(i):
        if not hasattr(here, "line"):
            here.line = HTTPConnection(host)
        here.line.request("GET", path, headers={"Range": f"bytes={2 * i}-{2 * (i + LENGTH + 1) - 1}"})
        return torch.from_numpy(np.frombuffer(here.line.getresponse().read(), np.uint16).astype(np.int64))

    with ThreadPoolExecutor(connections) as pool:
        while True:
            yield torch.stack(list(pool.map(fetch, [draw.randrange(size // 2 - LENGTH - 1) for _ in range(BATCH)])))


def leat_batches(loader):
    while True:
        yield from loader


def open_loader(url, ram, dtype):
    import leat

    fields = {"x": leat.tokens("tokens", dtype=dtype)}
    settings = {
        "batch_size": BATCH,
        "view": leat.blocks(LENGTH),
        "ram": ram,
        "threads": 1,
        "scope": "bench-tokens",
        "linger": "100ms",
    }
    return leat.Loader(url, fields=fields, **settings)


def rank(job):
    """One way, measured in a process of its own."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    seconds = job["seconds"]
    if job["way"] == "memmap":
        result = rate(memmap_batches(job["path"], job["dtype"]), seconds)
    elif job["way"] == "bucket":
        result = rate(bucket_batches(job["url"], job["size"], job["connections"]), seconds, first=0)
    else:
        loader = open_loader(job["url"], job["ram"], job["dtype"])
        batches = leat_batches(loader)
        before = loader.stats()
        began, cpu = time.perf_counter(), cpu_of(before["agent_pid"]) + cpu_of(os.getpid())
        for _ in range(len(loader)):  # an epoch: then all chunks are in memory
            next(batches)
        took, cpu = time.perf_counter() - began, cpu_of(before["agent_pid"]) + cpu_of(os.getpid()) - cpu
        result = {"wall": len(loader) * BYTES / took / 1e9, "cpu": len(loader) * BYTES / cpu / 1e9}
        if job["warm"]:
            before = loader.stats()
            result = rate(batches, seconds, pids=[before["agent_pid"]])
            if loader.stats()["chunks_fetched"] != before["chunks_fetched"]:
                raise SystemExit("chunks came from somewhere else than memory")
        loader.close()
    print(json.dumps(result))


def run(build, env, cores, **job):
    env = {**env, "PYTHONPATH": str(build / "python"), "LEAT_AGENT": str(build / "src" / "cli" / "leat")}
    command = [*(["taskset", "-c", cores] if cores else []), sys.executable, __file__, "--rank", json.dumps(job)]
    return json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)


def make_file(path, size):
    with open(path, "wb") as out:
        for _ in range(size >> 24):
            out.write(os.urandom(1 << 24))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--gb", type=float, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--core", default="0", help='what everything is bound to; "": nothing')
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        return rank(json.loads(given.rank))
    build, size = given.build.resolve(), int(given.gb * 1e9) >> 24 << 24
    leat = str(build / "src" / "cli" / "leat")
    ways = {}
    with scratch(2 * size) as folder:
        buckets = folder / "buckets"
        (buckets / "data").mkdir(parents=True)
        path = buckets / "data" / "tokens.bin"
        make_file(path, size)
        local = folder / "index"
        subprocess.run(
            [leat, "index", "--quiet", "--format=tokens", "--dtype=uint16", str(path), str(local)], check=True
        )
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LEAT_"))}
        ram = f"{size + (256 << 20) >> 20}mib"
        common = {"seconds": given.seconds}
        for _ in range(given.runs):
            for dtype in ("stored", "int64"):
                way = run(build, env, given.core, way="memmap", path=str(path), dtype=dtype, **common)
                ways.setdefault(f"memmap, page cache, {dtype}", []).append(way)
                job = {"way": "leat", "url": str(local), "ram": ram, "dtype": dtype, "warm": True}
                ways.setdefault(f"leat, memory, {dtype}", []).append(run(build, env, given.core, **job, **common))
        with serving(build, buckets, "--latency", LATENCY) as env:
            index = folder / "remote"
            source = "s3://data/tokens.bin"
            subprocess.run(
                [leat, "index", "--quiet", "--format=tokens", "--dtype=uint16", source, str(index)], check=True, env=env
            )
            url = f"{env['AWS_ENDPOINT_URL']}/data/tokens.bin"
            for _ in range(given.runs):
                for connections in (1, 16):
                    job = {"way": "bucket", "url": url, "size": size, "connections": connections}
                    ways.setdefault(f"ranges of a bucket, {connections} at a time", []).append(
                        run(build, env, None, **job, **common)
                    )
                job = {"way": "leat", "url": str(index), "ram": ram, "dtype": "int64", "warm": False}
                ways.setdefault("leat, bucket, first epoch", []).append(run(build, env, None, **job, **common))
    result = {name: {k: spread([v[k] for v in values]) for k in ("wall", "cpu")} for name, values in ways.items()}
    rows = [[name, shown(s["wall"], 4), shown(s["cpu"], 4)] for name, s in result.items()]
    table(["", "GB/s", "GB per CPU s"], rows)
    ratios = {
        "memory, stored": ("leat, memory, stored", "memmap, page cache, stored"),
        "memory, int64": ("leat, memory, int64", "memmap, page cache, int64"),
        "bucket, one at a time": ("leat, bucket, first epoch", "ranges of a bucket, 1 at a time"),
        "bucket, 16 at a time": ("leat, bucket, first epoch", "ranges of a bucket, 16 at a time"),
    }
    print()
    for name, (mine, theirs) in ratios.items():
        pairs = list(zip(ways[mine], ways[theirs]))
        found = {k: spread([a[k] / b[k] for a, b in pairs]) for k in ("wall", "cpu")}
        print(f"  {name}: {shown(found['wall'], 2)} times, by CPU time {shown(found['cpu'], 2)}")
        result[f"ratio {name}"] = found
    write("tokens", {"gb": size / 1e9, "length": LENGTH, "batch": BATCH, "latency": LATENCY, **result})


if __name__ == "__main__":
    shutil.which("taskset") or sys.exit("taskset is missing: apt install util-linux")
    sys.exit(main())
