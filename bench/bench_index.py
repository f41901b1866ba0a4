"""`leat index` over a million raw objects of `leat serve`, beside listing them only: a table, and bench/out/index.json.

python bench/bench_index.py [--build build/release] [--runs 3] [--objects 1000000] [--boto3]

Clients take turns. `--boto3` lists with boto3's paginator too, which takes minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, scratch, serving, shown, spread, table, write

BOTO3 = """
import boto3
pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="train/")
print(sum(len(page["Contents"]) for page in pages))
"""


def make_files(folder, objects, folders):
    """Names in folders of one size: only these, lengths and ETags matter here, so a folder's are links to one file."""
    for c in range(folders):
        path = folder / "bucket" / "train" / f"class_{c:03}"
        path.mkdir(parents=True)
        where = os.open(path, os.O_RDONLY)
        first = None
        for i in range(objects // folders):
            name = f"img_{c * objects // folders + i:08}.jpg"
            if first is None:
                first = name
                (path / name).write_bytes(b"x" * (100 + c))
            else:
                os.link(first, name, src_dir_fd=where, dst_dir_fd=where)
        os.close(where)


def run(command, env):
    """(seconds, CPU seconds, greatest memory in MB, what it printed)"""
    start = time.monotonic()
    with subprocess.Popen([str(word) for word in command], env=env, stdout=subprocess.PIPE, text=True) as child:
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with status {child.returncode}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--folders", type=int, default=100)
    parser.add_argument("--boto3", action="store_true")
    options = parser.parse_args()
    build = Path(options.build)
    leat = build / "src" / "cli" / "leat"
    with scratch(400 * options.objects) as folder:
        make_files(folder / "served", options.objects, options.folders)
        clients = {
            "leat index": [leat, "index", "--quiet", "--json", "--replace", "s3://bucket/train", folder / "index"],
            "leat index --threads 1": [
                leat, "index", "--quiet", "--json", "--replace", "--threads", "1", "s3://bucket/train", folder / "one",
            ],
            "leat index, a folder": [
                leat, "index", "--quiet", "--json", "--replace", folder / "served/bucket/train", folder / "local",
            ],
            "leat ls -r": [leat, "ls", "-r", "s3://bucket/train/"],
        }  # fmt: skip
        if options.boto3:
            clients["boto3, list_objects_v2"] = [sys.executable, "-c", BOTO3]
        seen = {client: {"wall_s": [], "cpu_s": [], "memory_mb": [], "list_s": []} for client in clients}
        with serving(build, folder / "served") as env:
            run(clients["leat ls -r"], env)  # the server's own list, once
            for _ in range(options.runs):
                for client, command in clients.items():
                    wall, cpu, memory, text = run(command, env)
                    seen[client]["wall_s"].append(wall)
                    seen[client]["cpu_s"].append(cpu)
                    seen[client]["memory_mb"].append(memory)
                    made = json.loads(text) if text.startswith("{") else {"list_s": wall}
                    if made.get("samples", options.objects) != options.objects:
                        raise SystemExit(f"{client} found {made['samples']} objects")
                    seen[client]["list_s"].append(made["list_s"])
    n = options.objects
    result = {client: {name: spread(values) for name, values in s.items()} for client, s in seen.items()}
    rates = {
        client: {
            "listed_per_s": spread([n / s for s in seen[client]["list_s"]]),
            "objects_per_s": spread([n / s for s in seen[client]["wall_s"]]),
        }
        for client in clients
    }
    print(f"{n} objects in {options.folders} folders: median (min … max)\n")
    table(
        ["", "listed, 1000/s", "in all, 1000/s", "CPU s", "memory, MB"],
        [
            [
                client,
                shown({k: v / 1000 for k, v in rates[client]["listed_per_s"].items()}, 0),
                shown({k: v / 1000 for k, v in rates[client]["objects_per_s"].items()}, 0),
                shown(result[client]["cpu_s"], 1),
                shown(result[client]["memory_mb"], 0),
            ]
            for client in clients
        ],
    )
    write("index", {"objects": n, "clients": {c: {**result[c], **rates[c]} for c in clients}})


if __name__ == "__main__":
    main()
