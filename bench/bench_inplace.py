"""Data where it lies: small objects and tar shards, indexed, against packed data and against a DataLoader.

python bench/bench_inplace.py [--build build/release] [--mb 1500] [--rounds 3]

Objects of 100 KB, 55 ms a GET. The limit is what 256 connections carry: read_objects, which does nothing else. Beside it a
DataLoader of 16 workers with boto3's get_object and connections that are kept. Then tar shards and packed chunks of the same
samples over a line of 200 MB/s (50 ms, 25 MB/s a connection), in turns. All first epochs, of agents that know nothing.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from common import ROOT, scratch, serving, shown, spread, table, write

SAMPLE = 100_000
BATCH = 64
SHARD = 200  # samples of a tar shard
LOOK = 1600  # samples that the DataLoader is measured with: it is slow
GET_DOLLARS = 0.0004 / 1000  # S3 standard, us-east-1, a public list price


def rank(url, field):
    """In a process of its own: the first epoch of a new agent."""
    import leat

    began = time.monotonic()
    loader = leat.Loader(
        url, batch_size=BATCH, ram="5gb", last="short", linger="100ms", as_numpy=True, fields={"x": leat.bytes(field)}
    )
    n = 0
    first = None
    for (x,) in loader:
        first = first or time.monotonic() - began
        n += sum(len(v) for v in x)
    numbers = loader.stats()
    result = {"seconds": time.monotonic() - began, "first": first, "bytes": n}
    print(json.dumps({**result, "requests": numbers["requests"], "agent_pid": numbers["agent_pid"]}))
    loader.close()


class Objects:
    """What a map-style dataset over a bucket usually is."""

    def __init__(self, keys):
        self.keys = keys
        self.client = None

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, i):
        if self.client is None:
            import boto3
            from botocore.config import Config

            self.client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
        return self.client.get_object(Bucket="data", Key=self.keys[i])["Body"].read()


def plain(count):
    """A DataLoader of 16 workers over the first objects, after its workers have started."""
    from torch.utils.data import DataLoader

    keys = [f"raw/{i:07}.bin" for i in range(int(count))]
    loader = DataLoader(
        Objects(keys), batch_size=BATCH, num_workers=16, shuffle=True, collate_fn=list, persistent_workers=True
    )
    n = 0
    for k, batch in enumerate(loader):
        if k == 4:
            began = time.monotonic()
        elif k > 4:
            n += sum(map(len, batch))
    print(json.dumps({"seconds": time.monotonic() - began, "bytes": n}))


def child(build, env, *args):
    env = {**env, "PYTHONPATH": str(build / "python"), "LEAT_AGENT": str(build / "src" / "cli" / "leat")}
    done = subprocess.run(
        [sys.executable, __file__, *map(str, args)], env=env, check=True, stdout=subprocess.PIPE, text=True
    )
    result = json.loads(done.stdout)
    while "agent_pid" in result and Path(f"/proc/{result['agent_pid']}").exists():
        time.sleep(0.05)
    return result


def make(build, folder, count):
    """One bucket with the same samples as objects, in shards and packed."""
    bucket = folder / "buckets" / "data"
    raw, shards = bucket / "raw", bucket / "tar"
    raw.mkdir(parents=True)
    shards.mkdir()
    block = os.urandom(SAMPLE)
    for i in range(count):
        (raw / f"{i:07}.bin").write_bytes(i.to_bytes(8, "little") + block[8:])
    for first in range(0, count, SHARD):
        with tarfile.open(shards / f"{first // SHARD:05}.tar", "w") as tar:
            for i in range(first, min(first + SHARD, count)):
                tar.add(raw / f"{i:07}.bin", arcname=f"{i:07}.bin")
    leat = str(build / "src" / "cli" / "leat")
    subprocess.run([leat, "pack", "--quiet", str(raw), str(bucket / "set")], check=True)
    return folder / "buckets"


def rate(result):
    return result["bytes"] / result["seconds"] / 1e6


def raw_objects(build, buckets, count, rounds):
    leat = str(build / "src" / "cli" / "leat")
    bare, ours, plains, requests = [], [], [], 0
    with serving(build, buckets, "--latency", "55ms") as env:
        index = [leat, "index", "--quiet", "s3://data/raw", "s3://data/raw-index"]
        subprocess.run(index, env=env, check=True, stdout=subprocess.DEVNULL)
        for _ in range(rounds):
            reader = [str(build / "bench" / "read_objects"), "-c", "256", "-a", "512", "s3://data/raw"]
            done = subprocess.run(reader, env=env, check=True, stdout=subprocess.PIPE, text=True)
            one = json.loads(done.stdout)
            bare.append(one["bytes"] / one["seconds"] / 1e6)
            result = child(build, env, "--rank", "s3://data/raw-index", "bin")
            assert result["bytes"] == count * SAMPLE
            ours.append(rate(result))
            requests = result["requests"]
            plains.append(rate(child(build, env, "--plain", LOOK)))
    shares = [a / b for a, b in zip(ours, bare)]
    table(
        ["objects of 100 KB, 55 ms", "MB/s"],
        [
            ["256 connections, nothing else", shown(spread(bare), 0)],
            ["Leat, first epoch", shown(spread(ours), 0)],
            ["DataLoader, 16 workers, boto3", shown(spread(plains), 1)],
        ],
    )
    print(f"  of what the connections carry: {shown(spread(shares), 3)}")
    print(f"  against the DataLoader:        {shown(spread([a / b for a, b in zip(ours, plains)]), 1)} times")
    print(f"  requests: {requests} for {count} samples, ${requests * GET_DOLLARS:.4f} an epoch at $0.0004 a thousand")
    return {"bare": spread(bare), "leat": spread(ours), "dataloader": spread(plains), "requests": requests}


def shards(build, buckets, count, rounds):
    leat = str(build / "src" / "cli" / "leat")
    packed, tar = [], []
    line = ("--latency", "50ms", "--bandwidth", "200MB/s", "--connection-bandwidth", "25MB/s")
    with serving(build, buckets) as env:
        index = [leat, "index", "--quiet", "--format", "tar", "s3://data/tar", "s3://data/tar-index"]
        subprocess.run(index, env=env, check=True, stdout=subprocess.DEVNULL)
    with serving(build, buckets, *line) as env:
        for _ in range(rounds):
            packed.append(rate(child(build, env, "--rank", "s3://data/set", "bin")))
            result = child(build, env, "--rank", "s3://data/tar-index", "bin")
            assert result["bytes"] == count * SAMPLE
            tar.append(rate(result))
    ratios = [a / b for a, b in zip(tar, packed)]
    print()
    table(
        ["a line of 200 MB/s", "MB/s"],
        [["packed chunks", shown(spread(packed), 1)], ["tar shards, in place", shown(spread(tar), 1)]],
    )
    print(f"  tar : packed = {shown(spread(ratios), 3)}")
    return {"packed": spread(packed), "tar": spread(tar), "ratio": spread(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--mb", type=float, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(*options.rank)
    elif options.plain:
        plain(options.plain)
    else:
        build = Path(options.build)
        count = int(options.mb * 1e6 // SAMPLE)
        subprocess.run(["ninja", "-C", build, "bench/read_objects"], check=True, stdout=subprocess.DEVNULL)
        with scratch(3 * options.mb * 1e6) as folder:
            buckets = make(build, folder, count)
            result = {"raw": raw_objects(build, buckets, count, options.rounds)}
            shutil.rmtree(buckets / "data" / "raw")
            result["shards"] = shards(build, buckets, count, options.rounds)
        write("inplace", result)


if __name__ == "__main__":
    main()
