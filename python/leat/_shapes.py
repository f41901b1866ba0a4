"""Behind `leat bench --shape`: trainings of a known shape, emulated, fed by leat.Loader and by a plain DataLoader.

Data of the shape's sizes go into a bucket in a box, once as one object for each file of the shape, for the DataLoader, and once
packed, for Leat. A rank takes a batch, sleeps as long as the accelerator would compute, and goes on. Accelerator utilisation (AU)
is the time of computing over the whole time of an epoch without its first step; mean over ranks, then over epochs.

With --data both read a dataset that is there already; the shape gives batches and computing.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leat.errors import Error

# DLIO's workloads: bytes of a record (mean, deviation), records in a file, batch, seconds of computing by accelerator, and the AU
# that is asked for.
SHAPES: dict[str, dict[str, Any]] = {
    "resnet50": {"bytes": (114_660, 0), "records": 1251, "batch": 400, "s": {"a100": 0.435, "h100": 0.224}, "au": 0.90},
    "unet3d": {
        "bytes": (146_600_628, 68_341_808),
        "records": 1,
        "batch": 7,
        "s": {"a100": 0.636, "h100": 0.323, "b200": 0.162},
        "au": 0.90,
    },
    "cosmoflow": {
        "bytes": (2_828_486, 71_311),
        "records": 1,
        "batch": 1,
        "s": {"a100": 0.00551, "h100": 0.0035},
        "au": 0.70,
    },
    "retinanet": {"bytes": (322_957, 0), "records": 1, "batch": 24, "s": {"b200": 0.04755}, "au": 0.85},
}
WINDOW = 8
CHUNK = 8 << 20


class RefusedError(Exception):
    """What cannot be done, in a line."""


def sizes(job: dict[str, Any]) -> list[int]:
    """Bytes of every sample: the same for the same job."""
    mean, deviation = (job["scale"] * value for value in SHAPES[job["shape"]]["bytes"])
    draw = random.Random(0)
    return [
        max(1, int(draw.gauss(mean, deviation) if deviation else mean), int(mean / 10)) for _ in range(job["samples"])
    ]


def make(job: dict[str, Any], folder: Path) -> None:
    """The bucket's contents: raw/ with one object a file of the shape, and the packed dataset set/."""
    records = SHAPES[job["shape"]]["records"]
    block = random.Random(1).randbytes(1 << 20)  # does not compress
    raw, files = folder / "buckets" / "data" / "raw", folder / "files"
    raw.mkdir(parents=True)
    files.mkdir()
    many = sizes(job)
    for first in range(0, len(many), records):
        with open(raw / f"{first // records:07}", "wb") as shard:
            for i in range(first, min(first + records, len(many))):
                text = i.to_bytes(8, "little") + block * (many[i] // len(block) + 1)
                shard.write(text[: many[i]])
                (files / f"{i:07}.bin").write_bytes(text[: many[i]])
    target = folder / "buckets" / "data" / "set"
    subprocess.run([job["command"], "pack", "--quiet", str(files), str(target)], check=True)
    shutil.rmtree(files)


@contextlib.contextmanager
def served(job: dict[str, Any], folder: Path) -> Iterator[str]:
    command = [job["command"], "serve", str(folder / "buckets"), "--port", "0", "--anonymous", "--read-only"]
    for name in ("bandwidth", "latency"):
        command += [f"--{name}", job[name]] if job[name] else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"https?://[^\s/]+", server.stdout.readline())
            if not found:
                raise RefusedError("the bucket in a box ('leat serve') did not start")
            yield found.group()
        finally:
            server.send_signal(signal.SIGTERM)


class Objects:
    """A dataset for a DataLoader: a GET for every sample, over a connection that each worker keeps."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.sizes, self.records = sizes(job), SHAPES[job["shape"]]["records"]
        self.host = urllib.parse.urlsplit(job["endpoint"]).netloc
        self.at = [0] * len(self.sizes)
        for i in range(1, len(self.sizes)):
            self.at[i] = 0 if i % self.records == 0 else self.at[i - 1] + self.sizes[i - 1]
        self.local: Any = None

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: int) -> Any:
        import torch

        if self.local is None or self.local[0] != os.getpid():
            self.local = os.getpid(), http.client.HTTPConnection(self.host)
        span = {"Range": f"bytes={self.at[i]}-{self.at[i] + self.sizes[i] - 1}"} if self.records > 1 else {}
        self.local[1].request("GET", f"/data/raw/{i // self.records:07}", headers=span)
        answer = self.local[1].getresponse()
        data = answer.read()
        if answer.status not in (200, 206) or len(data) != self.sizes[i] or int.from_bytes(data[:8], "little") != i:
            raise RefusedError(f"the bucket gave status {answer.status} and {len(data)} bytes for sample {i}")
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class Samples:
    """The samples of a Leat dataset for a DataLoader: whole chunks are fetched, as readers of shards do, and one after the other."""

    def __init__(self, job: dict[str, Any]) -> None:
        import leat

        self.data = leat.open(job["data"])

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        import torch

        _, values = self.data._core.get(i, self.data._numbers)  # as they are stored: nothing is decoded
        found = [value[0] if isinstance(value, tuple) else value for value in values]
        return [torch.frombuffer(bytearray(v), dtype=torch.uint8) if isinstance(v, bytes) and v else v for v in found]


def stretches(job: dict[str, Any]) -> list[range]:
    """Batches of a rank, for a DataLoader whose workers get them in turn: those of each worker follow each other in the dataset, so
    that it fetches no chunk twice."""
    steps, workers, batch = job["steps"], job["workers"], job["batch"]
    counts = [len(range(w, steps, workers)) for w in range(workers)]
    first = [job["rank"] * steps + sum(counts[:w]) for w in range(workers)]
    at = [first[k % workers] + k // workers for k in range(steps)]
    return [range(place * batch, (place + 1) * batch) for place in at]


def plain_of_data(job: dict[str, Any]) -> Any:
    from torch.utils.data import DataLoader

    data: Any = Samples(job)
    batches: Any = stretches(job)
    return DataLoader(
        data, batch_sampler=batches, num_workers=job["workers"], collate_fn=list, persistent_workers=True
    )  # fmt: skip


def plain(job: dict[str, Any]) -> Any:
    from torch.utils.data import DataLoader, DistributedSampler

    data: Any = Objects(job)
    sampler: Any = DistributedSampler(data, job["world"], job["rank"], drop_last=True)
    return DataLoader(
        data, job["batch"], sampler=sampler, num_workers=job["workers"], drop_last=True, collate_fn=list,
        persistent_workers=job["workers"] > 0,
    )  # fmt: skip


def fields_of(url: str) -> dict[str, Any]:
    """Everything that a dataset holds, as it is stored."""
    import leat

    made: dict[str, Any] = {}
    with leat.open(url) as data:
        for name, field in data.fields.items():
            if field.type == "int":
                made[name] = leat.int(name, default=0 if field.optional else None)
            elif field.type == "float":
                made[name] = leat.float(name, default=0.0 if field.optional else None)
            else:
                made[name] = leat.bytes(name, default=b"" if field.optional else None)
    return made


def leats(job: dict[str, Any]) -> Any:
    import leat

    return leat.Loader(
        job["data"] or "s3://data/set",
        batch_size=job["batch"],
        fields=fields_of(job["data"]) if job["data"] else {"x": leat.bytes("bin")},
        ram=job["ram"],
        window=WINDOW,
        linger="100ms",
    )


def run_rank(job: dict[str, Any]) -> None:
    """One rank: prints its AU of every epoch."""
    other = plain_of_data if job["data"] else plain
    loader = (leats if job["loader"] == "leat" else other)(job)
    found, waits = [], 0.0
    for _ in range(job["epochs"]):
        steps, first = 0, 0.0
        before = time.perf_counter()
        for _batch in itertools.islice(loader, job["steps"]):
            waits += time.perf_counter() - before
            time.sleep(job["compute_s"])
            before = time.perf_counter()
            first = before if steps == 0 else first
            steps += 1
        if steps < 2:
            raise RefusedError("an epoch has fewer than two steps")
        found.append((steps - 1) * job["compute_s"] / (before - first))
    if hasattr(loader, "close"):
        loader.close()
    print(json.dumps({"au": found, "wait_s": waits}), flush=True)


def measure(job: dict[str, Any], loader: str, runtime: str) -> dict[str, Any]:
    """All ranks with one loader."""
    if job["data"]:  # with the keys and the endpoint that the caller has, and no cache from before
        env = {k: v for k, v in os.environ.items() if k != "LEAT_CACHE_DIR"}
    else:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LEAT_"))}
        env |= {"LEAT_ENDPOINT_URL": job["endpoint"], "LEAT_NO_SIGN_REQUEST": "1"}
    env |= {"LEAT_RUNTIME_DIR": runtime, "LEAT_AGENT": job["command"], "OMP_NUM_THREADS": "1"}
    ranks = []
    try:
        for rank in range(job["world"]):
            env |= {
                "RANK": str(rank),
                "WORLD_SIZE": str(job["world"]),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(job["world"]),
            }
            text = json.dumps({**job, "rank": rank, "loader": loader})
            command = [sys.executable, "-c", "from leat import _shapes; _shapes.main()", text]
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = [process.communicate()[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    if any(process.returncode for process in ranks):
        raise RefusedError(f"{loader}: a rank ended with status {next(r.returncode for r in ranks if r.returncode)}")
    found = [json.loads(text) for text in said]
    epochs = [sum(rank["au"][e] for rank in found) / len(found) for e in range(job["epochs"])]
    return {
        "au": sum(epochs) / len(epochs),
        "epochs": epochs,
        "wait_s": sum(rank["wait_s"] for rank in found) / len(found),
    }


def understand(job: dict[str, Any]) -> dict[str, Any]:
    """The job with everything that follows from what was asked."""
    shape = SHAPES.get(job["shape"])
    if not shape:
        raise RefusedError(f"--shape {job['shape']}: one of {', '.join(SHAPES)}")
    if job["accelerator"] not in shape["s"]:
        raise RefusedError(
            f"--accelerator {job['accelerator']}: step times of {job['shape']} are known for {', '.join(shape['s'])}"
        )
    compute = shape["s"][job["accelerator"]]
    job = {**job, "compute_s": compute, "batch": shape["batch"]}
    steps = min(2000, max(8, round(job["epoch_s"] / compute)))
    job = found_data(job, steps) if job["data"] else made_data(job, steps)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    if job["ram"] > memory:
        smaller = "" if job["data"] else f"--scale {job['scale'] * memory / job['ram']:.2g} or "
        raise RefusedError(
            f"Leat would need {job['ram'] / 1e9:.1f} GB of memory for this, of {memory / 1e9:.1f} that are half of this machine's: "
            f"{smaller}fewer --accelerators"
        )
    return {**job, "rate": job["batch"] * job["mean"] / compute * job["world"]}


def sized(job: dict[str, Any], steps: int, mean: float, largest: float, chunk: float) -> dict[str, Any]:
    """What this many steps read, and the memory that Leat may use: for a fifth of it, what is mixed, and batches."""
    samples = steps * job["batch"] * job["world"]
    total = samples * mean
    ram = int(total * 0.2 + (WINDOW + 8) * max(CHUNK, chunk) + 6 * job["world"] * job["batch"] * largest)
    return {**job, "steps": steps, "samples": samples, "mean": mean, "bytes": total, "ram": ram}


def made_data(job: dict[str, Any], steps: int) -> dict[str, Any]:
    mean, deviation = (job["scale"] * value for value in SHAPES[job["shape"]]["bytes"])
    mean = max(1.0, mean)
    largest = mean + 4 * deviation
    job = sized(job, steps, mean, largest, largest)
    total = job["bytes"]
    room = shutil.disk_usage(job["folder"]).free / 3  # twice, and something must be left
    if total > room:
        fits = job["scale"] * room / total
        raise RefusedError(
            f"this shape needs {total / 1e9:.1f} GB twice, {job['folder']} has room for {room / 1e9:.1f}: --scale {fits:.2g}, a shorter "
            "--epoch-time or another --folder"
        )
    return job


def found_data(job: dict[str, Any], steps: int) -> dict[str, Any]:
    """An epoch ends with the dataset, or earlier with its time."""
    done = subprocess.run(
        [job["command"], "info", "--json", job["data"]], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)  # it has said why
    info = json.loads(done.stdout)
    steps = min(steps, info["samples"] // (job["batch"] * job["world"]))
    if steps < 2:
        raise RefusedError(
            f"--data {job['data']}: its {info['samples']} samples are fewer than two steps of {job['world']} × {job['batch']}: a larger "
            "dataset, fewer --accelerators or a --shape with smaller batches"
        )
    mean = info["bytes"] / info["samples"]
    job = sized(job, steps, mean, 2 * mean, 2 * info["bytes"] / info["chunks"])
    return {**job, "of": info["samples"]}


def describe(job: dict[str, Any]) -> None:
    shape = SHAPES[job["shape"]]
    mean, deviation = shape["bytes"]
    print(f"DLIO {job['shape']} shape, {job['world']} × {job['accelerator']}: batches of {job['batch']}, {1e3 * job['compute_s']:g} ms of "
          f"computing each (emulated: it sleeps), AU ≥ {100 * shape['au']:.0f} % asked for")  # fmt: skip
    spread = f" ± {deviation * job['scale']:,.0f}" if deviation and not job["data"] else ""
    print(f"  {job['samples']} samples of {job['mean']:,.0f}{spread} bytes, {job['steps']} steps in an epoch, {job['epochs']} epoch{'s' * (job['epochs'] != 1)}; "
          f"{job['rate'] / 1e6:,.0f} MB/s would keep it busy")  # fmt: skip
    if job["data"]:
        print(f"  YOUR DATA: {job['data']}, {job['samples']} of its {job['of']} samples in an epoch; batches and computing are the shape's. This is not "
              "the shape's own figure")  # fmt: skip
    elif job["scale"] != 1:
        print(f"  SCALED: samples have {job['scale']:g} of the shape's {mean:,} bytes; steps, batches and computing are the shape's own. This is "
              "not the shape's own figure")  # fmt: skip
    box = (
        f"from a bucket in a box on this machine ({job['bandwidth'] or 'no limit'}, {job['latency'] or 'no'} latency); "
    )
    print(f"  {'' if job['data'] else box}Leat may use {job['ram'] / 1e6:,.0f} MB of memory, the DataLoader has {job['workers']} "
          f"worker{'s' * (job['workers'] != 1)} for each rank", flush=True)  # fmt: skip


def run_job(job: dict[str, Any]) -> None:
    job = understand(job)
    if not job["json"]:
        describe(job)
    with contextlib.ExitStack() as stack:
        if not job["data"]:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leat-shape-", dir=job["folder"])))
            make(job, folder)
            job["endpoint"] = stack.enter_context(served(job, folder))
        # An agent of its own, whose socket needs a short path.
        runtime = stack.enter_context(tempfile.TemporaryDirectory(prefix="leat-", dir="/tmp"))
        found = {loader: measure(job, loader, runtime) for loader in ("leat", "DataLoader")}
    asked = SHAPES[job["shape"]]["au"]
    if job["json"]:
        told = {
            k: job[k]
            for k in (
                "shape",
                "data",
                "accelerator",
                "world",
                "scale",
                "compute_s",
                "steps",
                "epochs",
                "batch",
                "samples",
                "bytes",
                "ram",
            )
        }
        print(json.dumps({**told, "workers": job["workers"], "asked": asked, "loaders": found}, indent=1))
        return
    for loader, result in found.items():
        epochs = ", ".join(f"{100 * au:.1f}" for au in result["epochs"])
        held = "reached" if result["au"] >= asked else "NOT reached"
        print(
            f"{loader:<11} AU {100 * result['au']:5.1f} %  (epochs {epochs}), {held}; a rank waited {result['wait_s']:.2f} s for data"
        )


def main() -> None:
    job = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and so removes what was made
    try:
        run_rank(job) if "loader" in job else run_job(job)
    except (RefusedError, Error) as error:
        sys.exit(f"leat: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"leat: '{' '.join(error.cmd[:2])}' ended with status {error.returncode}")
    except KeyboardInterrupt:
        sys.exit(130)
