"""DELI's setting: three readers, 55 ms for a GET, batches of 512, 10 % of the data stored locally, and what they wait.

python bench/bench_deli.py [--build build/release] [--samples 61440] [--compute 0.5] [--steps 12]

DELI (Dynamic, Low-latency Input) reads small objects from a bucket far away. Three ways to feed the same training:
one GET at a time, 16 GETs in parallel (threads), and Leat, whose samples are packed. A step is `--compute` seconds
without data; waiting is the rest. The two ways by GETs are measured on the first batches and scaled to an epoch: every
batch costs them the same.
"""

import argparse
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from common import ROOT, scratch, serving, table, write

READERS = 3
BATCH = 512
SAMPLE = 3_000  # a small image
LATENCY = 0.055
LOCAL = 0.10
WINDOW = 8


class Bucket:
    """GETs over connections that are kept, one a thread."""

    def __init__(self, url):
        self.host = urllib.parse.urlsplit(url).netloc
        self.local = threading.local()

    def get(self, key):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.host)
        self.local.connection.request("GET", f"/data/raw/{key:07}.bin", headers=signed(self.host, key))
        with self.local.connection.getresponse() as answer:
            data = answer.read()
            assert answer.status == 200, data
        return data


def signed(host, key):
    """AWS's signature, version 4."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    empty = hashlib.sha256(b"").hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    heads = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
    request = f"GET\n/data/raw/{key:07}.bin\n\n{heads}\n{names}\n{empty}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = b"AWS4bench-secret"
    for part in (*scope.split("/"), text):
        secret = hmac.new(secret, part.encode(), "sha256").digest()
    return {
        "x-amz-date": stamp,
        "x-amz-content-sha256": empty,
        "Authorization": f"AWS4-HMAC-SHA256 Credential=bench/{scope}, SignedHeaders={names}, Signature={secret.hex()}",
    }


def wait_by_gets(parallel, compute, batches, gets):
    """A reader's waiting for a batch: its GETs, less what the step before hides when they run ahead."""
    bucket = Bucket(os.environ["AWS_ENDPOINT_URL"])
    wanted = [i for i in range(gets) if i % 10]  # every tenth sample lies here already
    waits = []
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        for _ in range(batches):
            began = time.monotonic()
            for data in pool.map(bucket.get, wanted) if parallel > 1 else map(bucket.get, wanted):
                assert len(data) == SAMPLE
            waits.append((time.monotonic() - began) * BATCH / gets)
    # Running ahead in the background, as a DataLoader's workers do, hides a step's compute at best.
    return [max(0.0, wait - (compute if parallel > 1 else 0)) for wait in waits]


def wait_by_leat(compute, steps, ram):
    import leat
    import numpy  # noqa: F401 - a training program has it long before

    began = time.monotonic()
    loader = leat.Loader(
        "s3://data/set",
        batch_size=BATCH,
        window=WINDOW,
        ram=ram,
        fields={"data": leat.bytes("bin")},
        as_numpy=True,
        linger="100ms",
        timeout=120,
    )
    waits = []
    batches = iter(loader)
    for _ in range(steps):
        batch = next(batches, None) or next(batches := iter(loader))
        waits.append(time.monotonic() - began)
        del batch
        time.sleep(compute)
        began = time.monotonic()
    print(json.dumps({"waits": waits, "agent_pid": loader.stats()["agent_pid"]}), flush=True)
    loader.close()


def start(build, env, rank, *args):
    env = {
        **env,
        "PYTHONPATH": str(build / "python"),
        "LEAT_AGENT": str(build / "src" / "cli" / "leat"),
        "RANK": str(rank),
        "WORLD_SIZE": str(READERS),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(READERS),
    }
    command = [sys.executable, __file__, "--rank", *map(str, args)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def run_readers(build, env, *args):
    """The waits of all readers, a list each."""
    readers = [start(build, env, rank, *args) for rank in range(READERS)]
    results = [json.loads(reader.communicate()[0]) for reader in readers]
    if any(reader.returncode for reader in readers):
        raise SystemExit("a reader failed")
    while any(Path(f"/proc/{r['agent_pid']}").exists() for r in results if "agent_pid" in r):
        time.sleep(0.05)
    return [r["waits"] for r in results]


def make_data(build, folder, samples):
    raw = folder / "buckets" / "data" / "raw"
    raw.mkdir(parents=True)
    block = os.urandom(SAMPLE)
    for i in range(samples):
        (raw / f"{i:07}.bin").write_bytes(i.to_bytes(8, "little") + block[8:])
    command = [build / "src" / "cli" / "leat", "pack", "--quiet", raw, raw.parent / "set", "--chunk-size", "1MiB"]
    subprocess.run([str(word) for word in command], check=True)


def mean(lists):
    flat = [x for values in lists for x in values]
    return sum(flat) / len(flat)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--samples", type=int, default=61_440)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--compute", type=float, nargs="*", default=[0.5, 6.0])
    parser.add_argument("--rank", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        how, compute, steps, ram = options.rank
        if how == "leat":
            wait_by_leat(float(compute), int(steps), int(ram))
        else:
            parallel, gets = map(int, how.split(":"))
            print(json.dumps({"waits": wait_by_gets(parallel, float(compute), int(steps), gets)}), flush=True)
        return
    build = Path(options.build)
    size = options.samples * SAMPLE
    rows, shown = [], []
    with scratch(3 * size) as folder:
        make_data(build, folder, options.samples)
        work = 48 << 20  # what three readers have in hand; the rest of the memory is what is stored here
        ram = work + int(LOCAL * size)
        with serving(build, folder / "buckets", "--latency", f"{LATENCY * 1e3:.0f}ms") as env:
            env["LEAT_RUNTIME_DIR"] = str(folder)  # nobody else's agent
            for compute in options.compute:
                steps = options.steps if compute < 1 else max(4, options.steps // 2)
                one = mean(run_readers(build, env, "1:64", compute, 1, 0))
                many = mean(run_readers(build, env, "16:512", compute, 2, 0))
                waits = run_readers(build, env, "leat", compute, steps, ram)
                first = max(w[0] for w in waits)
                ours = mean([w[1:] for w in waits])
                whole = mean(waits)
                row = {
                    "compute_s": compute,
                    "one_get_s": one,
                    "sixteen_gets_s": many,
                    "leat_s": ours,
                    "leat_first_batch_s": first,
                    "leat_with_the_first_s": whole,
                    "cut_against_one_percent": 100 * (1 - ours / one),
                    "cut_with_the_first_percent": 100 * (1 - whole / one),
                    "cut_against_sixteen_percent": 100 * (1 - ours / many) if many else 0.0,
                }
                rows.append(row)
                shown.append(
                    [
                        f"{compute:g} s",
                        f"{one:.2f}",
                        f"{many:.2f}",
                        f"{1e3 * ours:.2f}",
                        f"{first:.2f}",
                        f"{row['cut_against_one_percent']:.3f}",
                        f"{row['cut_with_the_first_percent']:.2f}",
                        f"{row['cut_against_sixteen_percent']:.2f}" if many > 0.001 else "–",
                    ]
                )
    print(f"{READERS} readers, {options.samples} samples of {SAMPLE} bytes, 55 ms a GET, batches of {BATCH}, 10 % stored here")
    head = ["compute", "one GET, s", "16 GETs, s", "Leat, ms", "opening and first, s", "cut to one, %", "with the first", "cut to 16, %"]
    table(head, shown)
    print("  waiting for a batch. One GET at a time: measured on 64 samples a reader and scaled to 512. 16 GETs: two batches,")
    print("  less a step's compute, as if they ran ahead all the time. Leat: all batches behind the first. The aim is 99.9 %.")
    write("deli", {"rows": rows})


if __name__ == "__main__":
    main()
