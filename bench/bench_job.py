"""What a job of several machines fetches: 1, 2, 4 and 8 of them with a cache each, and how many samples each finds at home.

python bench/bench_job.py [--build build/release] [--mb 64] [--epochs 3] [--machines 1,2,4,8]

Each machine is a network namespace with an agent of its own (on the loopback where namespaces are not permitted). Caches are
such that eight machines hold all of the data, half of it, or a quarter. c' is a machine's budget less the live window and what
is fetched ahead; the least that has to leave the bucket is d in the first epoch and d − N·c' in later ones.

What leaves the bucket in the first epoch is told apart by the server's log: a chunk that is fetched after the first epoch's last
use of it (as `leat order` has it) is fetched for the second. In later epochs what is fetched at the end for the next one counts
for the epoch in which it was fetched, so that the sum of all epochs says most.

A read is local when a machine gets a chunk from its own cache or from the bucket, as its owner; each chunk that another machine
reads, too, is one from there. The arithmetic counts for each chunk the machines that are assigned samples of it.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from common import ROOT, make_data, scratch, serving, table, write

sys.path.insert(0, str(ROOT / "tests" / "py"))

SAMPLE = 10_000
CHUNK = 64 << 10
BATCH = 8
WINDOW = 8
LIVE = 2 * WINDOW * CHUNK  # the window, and as much of what is being prepared


def rank(url, ram, epochs):
    """In a process of its own: what came from where in each epoch."""
    import leat
    import torch
    import torch.distributed as dist

    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    loader = leat.Loader(
        url, batch_size=BATCH, window=WINDOW, ram=int(ram), last="short", seed=1, fields={"x": leat.bytes("bin")},
        job="auto", timeout=300,
    )  # fmt: skip
    rows, before = [], loader.stats()
    for _ in range(int(epochs)):
        samples, taken = 0, []
        for (data,) in loader:
            samples += len(data)
            taken.append(time.time())
            if dist.is_initialized():
                dist.all_reduce(torch.ones(1))  # as a training would: none runs ahead of the others
        now = loader.stats()
        rows.append({k: v - before["bytes_by_source"][k] for k, v in now["bytes_by_source"].items()})
        rows[-1]["samples"] = samples
        rows[-1]["taken"] = taken
        before = now
    print(json.dumps(rows), flush=True)
    if dist.is_initialized():
        dist.barrier()  # nobody takes its agent away from the others
    loader.close()


def run_job(build, env, network, n, ram, epochs, port):
    """The rows of all ranks."""
    ranks, folders = [], [tempfile.TemporaryDirectory(prefix="leat-j-", dir="/tmp") for _ in range(n)]
    for r in range(n):
        full = {
            **env,
            "RANK": str(r), "WORLD_SIZE": str(n), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": network.address(0) if network else "127.0.0.1", "MASTER_PORT": str(port),
            "PYTHONPATH": str(build / "python"), "LEAT_AGENT": str(build / "src" / "cli" / "leat"),
            "LEAT_RUNTIME_DIR": folders[r].name, "LEAT_LINGER": "2s", "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
        }  # fmt: skip
        if network:
            full["GLOO_SOCKET_IFNAME"] = "eth0"
        inside = ["ip", "netns", "exec", network.names[r]] if network else []
        command = [*inside, sys.executable, __file__, "--rank", "s3://data/set", str(ram), str(epochs)]
        ranks.append(subprocess.Popen(command, env=full, stdout=subprocess.PIPE, text=True))
    rows = [json.loads(process.communicate(timeout=600)[0]) for process in ranks]
    deadline = time.monotonic() + 60
    for folder in folders:
        while list(Path(folder.name).glob("*.sock")) and time.monotonic() < deadline:
            time.sleep(0.1)
        folder.cleanup()
    return rows


def assigned(build, dataset, n, epoch):
    """By chunk: the last step of an epoch that has samples of it, and the machines that read them."""
    command = [str(build / "src" / "cli" / "leat"), "order", str(dataset), "--json", "--seed", "1", "--epoch", str(epoch),
               "--window", str(WINDOW), "--global-batch", str(n * BATCH), "--last", "short", "--world", str(n), "--nodes", str(n)]  # fmt: skip
    last, readers = {}, {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        row = json.loads(line)
        last[row["chunk"]] = max(row["step"], last.get(row["chunk"], 0))
        readers.setdefault(row["chunk"], set()).add(row["rank"])
    return last, readers


def chunk_numbers(dataset):
    """Of the keys of all chunks: a chunk says its number itself (docs/format.md)."""
    found = {}
    for path in (dataset / "leat" / "chunks").rglob("*"):
        if path.is_file():
            with open(path, "rb") as f:
                found[path.name] = int.from_bytes(f.read(68)[64:], "little")
    return found


def asked(url, after):
    with urllib.request.urlopen(f"{url}/-/log?after={after}") as answer:
        return [json.loads(line) for line in answer.read().decode().splitlines() if line]


def first_epoch(log, numbers, last, ranks):
    """Bytes of chunks that left the bucket for the first epoch, and those that did so in it for the second."""
    over = [
        max(r[0]["taken"][step] for r in ranks if step < len(r[0]["taken"])) for step in range(max(last.values()) + 1)
    ]
    own = ahead = 0
    for request in log:
        number = numbers.get(request.get("key", "").rsplit("/", 1)[-1])
        if number is None or request["method"] != "GET" or request["time_s"] > over[-1]:
            continue
        late = request["time_s"] > over[last[number]]
        own, ahead = own + (not late) * request["sent"], ahead + late * request["sent"]
    return own, ahead


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--machines", default="1,2,4,8")
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(*options.rank)
        return
    from machines import Network, NoNetwork

    build = Path(options.build)
    total = options.mb * 1e6
    rows, shown = [], []
    most = max(map(int, options.machines.split(",")))
    network = None
    if most > 1:
        with contextlib.suppress(NoNetwork):
            network = Network(most)
    try:
        with scratch(3 * total) as folder:
            dataset = make_data(build, folder, total, SAMPLE, "--chunk-size", str(CHUNK)) / "data" / "set"
            size = sum(path.stat().st_size for path in (dataset / "leat" / "chunks").rglob("*") if path.is_file())
            numbers = chunk_numbers(dataset)
            where = ["--bind", "0.0.0.0", "--access-key", "bench", "--secret-key", "bench-secret"] if network else []
            with serving(build, dataset.parents[1], *where) as env:
                here, seen = env["AWS_ENDPOINT_URL"].replace("0.0.0.0", "127.0.0.1"), 0
                if network:
                    env["AWS_ENDPOINT_URL"] = f"http://{network.host}:{env['AWS_ENDPOINT_URL'].rsplit(':', 1)[1]}"
                for share in (1.0, 0.5, 0.25):
                    for n in map(int, options.machines.split(",")):
                        ram = int(size * share / 8) + 2 * LIVE
                        ranks = run_job(build, env, network, n, ram, options.epochs, 29500 + len(rows))
                        by_epoch = [
                            {k: sum(r[e][k] for r in ranks) for k in ("bucket", "peer", "ram", "samples")}
                            for e in range(options.epochs)
                        ]
                        log = asked(here, seen)
                        seen = log[-1]["number"]
                        readers = [assigned(build, dataset, n, e)[1] for e in range(options.epochs)]
                        own, ahead = first_epoch(log, numbers, assigned(build, dataset, n, 0)[0], ranks)
                        pairs = sum(len(nodes) for each in readers for nodes in each.values())
                        kept = max(0, ram - LIVE - max(0, ram - LIVE) / 4)
                        least = max(0, size - n * kept)
                        later = sum(e["bucket"] for e in by_epoch[1:]) / max(1, options.epochs - 1)
                        row = {
                            "machines": n, "ram": ram, "kept": kept, "first": own, "ahead": ahead, "later": later,
                            "least": least, "epochs": by_epoch,
                            "local": 1 / (1 + sum(e["peer"] for e in by_epoch) / options.epochs / size),
                            "local_by_arithmetic": len(numbers) * options.epochs / pairs,
                        }  # fmt: skip
                        row["ratio"] = sum(e["bucket"] for e in by_epoch) / (size + (options.epochs - 1) * least)
                        rows.append(row)
                        shown.append(
                            [
                                f"{n} × {ram / 1e6:.1f} MB",
                                f"{own / size:.3f}",
                                f"{ahead / size:.3f}",
                                f"{later / 1e6:.1f}",
                                f"{least / 1e6:.1f}",
                                f"{row['ratio']:.3f}",
                                f"{sum(e['peer'] for e in by_epoch[1:]) / max(1, options.epochs - 1) / size:.2f}",
                                f"{100 * row['local']:.1f}",
                                f"{100 * row['local_by_arithmetic']:.1f}",
                            ]
                        )
                        print("  " + "   ".join(shown[-1]), flush=True)
    finally:
        if network:
            network.close()
    print(f"{size / 1e6:.0f} MB, window {WINDOW}, {options.epochs} epochs")
    table(
        ["machines", "epoch 1 ÷ d", "for epoch 2 ÷ d", "MB later", "d − N·c'", "all ÷ least", "from machines ÷ d", "local, %",
         "by arithmetic"], shown,
    )  # fmt: skip
    write("job", {"dataset": size, "rows": rows})


if __name__ == "__main__":
    main()
