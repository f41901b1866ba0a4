"""make demo: one training from one slow bucket, fed in four ways.

Makes a small image dataset, serves it like a bucket far away, and trains a small network for a few epochs each way:
by a plain DataLoader and by Leat, from the raw objects and from larger pieces of them. Everybody keeps connections open and reads
ahead. Prints the times, the waits and the ratios. Everything happens in a temporary folder that is gone afterwards.
"""

from __future__ import annotations

import argparse
import functools
import http.client
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings

try:
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
except ImportError:  # Leat feeds numpy arrays then, and there is nothing to compare with
    DataLoader, IterableDataset = None, object

LABELS = ("dots", "lines", "waves", "noise")
CROP = 64
SHARDS = 16
SHUFFLE = 256  # samples in the buffer that mixes shards


def find_leat():
    """The command: beside this checkout's build, or in PATH."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    built = os.path.join(os.environ.get("LEAT_BUILD", os.path.join(root, "build", "release")), "src", "cli", "leat")
    path = built if os.access(built, os.X_OK) else shutil.which("leat")
    if not path:
        sys.exit("the leat command is not built: run 'make' first")
    return path


def make_images(folder, n):
    """Small pictures of four kinds, which a small network can tell apart."""
    import numpy
    from PIL import Image

    rng = numpy.random.default_rng(0)
    for i in range(n):
        kind = i % len(LABELS)
        side = int(rng.integers(120, 200))
        y, x = numpy.mgrid[0:side, 0:side] / side
        angle, scale = rng.uniform(0, 3.14), rng.uniform(8, 20)
        u = numpy.cos(angle) * x + numpy.sin(angle) * y
        if kind == 0:
            base = (numpy.sin(scale * 3 * x) * numpy.sin(scale * 3 * y)) > 0.5
        elif kind == 1:
            base = numpy.sin(scale * 6 * u) > 0.8
        elif kind == 2:
            base = (numpy.sin(scale * 2 * u) + 1) / 2
        else:
            base = rng.uniform(0, 1, (side, side))
        colour = rng.uniform(0.3, 1, 3)
        pixels = (base[..., None] * colour * 200 + rng.uniform(0, 40, (side, side, 3))).astype("uint8")
        os.makedirs(os.path.join(folder, LABELS[kind]), exist_ok=True)
        Image.fromarray(pixels).save(os.path.join(folder, LABELS[kind], f"{i:05}.jpg"), quality=90)


class Bucket:
    """leat serve, for as long as the demo runs."""

    def __init__(self, leat, folder, latency, bandwidth):
        self.process = subprocess.Popen(
            [leat, "serve", folder, "--port", "0", "--latency", latency, "--bandwidth", bandwidth],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            sys.exit("leat serve did not start")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def make_shards(raw, folder, keys):
    """The same pictures as tar shards, mixed, as they are made for WebDataset."""
    os.makedirs(folder)
    keys = random.Random(0).sample(keys, len(keys))
    for shard in range(SHARDS):
        with tarfile.open(os.path.join(folder, f"{shard:03}.tar"), "w") as tar:
            for key in keys[shard::SHARDS]:
                tar.add(os.path.join(raw, key), arcname=key)


@functools.lru_cache(maxsize=1)
def connection(host, process):
    """This process's connection to the bucket, which stays open. (A forked worker must not use its parent's.)"""
    return http.client.HTTPConnection(host)


def get(url, path):
    """The answer to a GET, on the connection that is there."""
    bucket = connection(url.partition("//")[2], os.getpid())
    bucket.request("GET", path)
    answer = bucket.getresponse()
    if answer.status != 200:
        raise OSError(f"{path}: {answer.status} {answer.reason}")
    return answer


def prepare(data):
    """RandomResizedCrop and flip, as torchvision draws them."""
    import numpy
    import torch
    from PIL import Image

    picture = Image.open(io.BytesIO(data)).convert("RGB")
    w, h = picture.size
    area = w * h * random.uniform(0.08, 1)
    ratio = random.uniform(3 / 4, 4 / 3)
    cw, ch = min(w, round((area * ratio) ** 0.5)), min(h, round((area / ratio) ** 0.5))
    left, top = random.randint(0, w - cw), random.randint(0, h - ch)
    picture = picture.resize((CROP, CROP), Image.BILINEAR, (left, top, left + cw, top + ch))
    pixels = numpy.asarray(picture)
    if random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return torch.from_numpy(pixels.copy())


class Objects:
    """Gets every picture from the bucket when it is asked for."""

    def __init__(self, url, keys):
        self.url, self.keys = url, keys

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, i):
        label, _, _ = self.keys[i].partition("/")
        return prepare(get(self.url, f"/data/raw/{self.keys[i]}").read()), LABELS.index(label)


class Shards(IterableDataset):
    """Reads tar shards from front to back, in another order each epoch, and mixes them in a buffer, as WebDataset does."""

    def __init__(self, url):
        self.url, self.epoch = url, 0

    def __iter__(self):
        self.epoch += 1
        worker = get_worker_info()
        shards = random.Random(self.epoch).sample(range(SHARDS), SHARDS)[worker.id :: worker.num_workers]
        buffer = []
        for sample in self.samples(shards):
            if len(buffer) < SHUFFLE:
                buffer.append(sample)
                continue
            i = random.randrange(SHUFFLE)
            yield self.decode(*buffer[i])
            buffer[i] = sample
        random.shuffle(buffer)
        for sample in buffer:
            yield self.decode(*sample)

    def samples(self, shards):
        for shard in shards:
            answer = get(self.url, f"/data/shards/{shard:03}.tar")
            with tarfile.open(fileobj=answer, mode="r|") as tar:
                for member in tar:
                    yield member.name, tar.extractfile(member).read()
            answer.read()

    def decode(self, name, data):
        return prepare(data), LABELS.index(name.partition("/")[0])


def make_step():
    """One training step of a small network; where torch is missing, as much time as it would take."""
    try:
        import torch
        from torch import nn
    except ImportError:

        def emulate(x, y):
            time.sleep(0.02)
            return 0.0

        return emulate
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, len(LABELS)),
    )
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x.permute(0, 3, 1, 2).float() / 255), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def train(name, batches, epochs):
    """Runs the epochs; tells how long they took and how much of that the training waited for data."""
    step = make_step()
    began = time.monotonic()
    wait, losses, samples = 0.0, [], 0
    for epoch in range(epochs):
        losses = []
        source = iter(batches())
        while True:
            asked = time.monotonic()
            batch = next(source, None)
            wait += time.monotonic() - asked
            if batch is None:
                break
            losses.append(step(*batch))
            samples += len(batch[1])
        took = time.monotonic() - began
        loss = sum(losses) / len(losses)
        print(f"  {name:20} epoch {epoch + 1}: {took:6.1f} s so far, waited {wait:6.1f} s, loss {loss:.3f}")
    total = time.monotonic() - began
    return total, wait, samples / total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=16, help="of the DataLoader that gets objects: it waits")
    cores = min(SHARDS, max(4, os.cpu_count() or 4))
    parser.add_argument("--shard-workers", type=int, default=cores, help="of the one that reads shards: it decodes")
    parser.add_argument("--latency", default="40ms", help="of the bucket, for each request")
    parser.add_argument("--bandwidth", default="50MB/s", help="of the bucket, all connections together")
    args = parser.parse_args()
    leat_command = find_leat()
    os.environ.setdefault("LEAT_AGENT", leat_command)
    folder = tempfile.mkdtemp(prefix="leat-demo-")
    os.environ["LEAT_SCOPE"] = f"demo-{os.getpid()}"  # an agent of its own
    bucket = None
    try:
        print(f"making {args.images} pictures")
        raw = os.path.join(folder, "buckets", "data", "raw")
        make_images(raw, args.images)
        keys = [f"{label}/{name}" for label in LABELS for name in sorted(os.listdir(os.path.join(raw, label)))]
        bucket = Bucket(leat_command, os.path.join(folder, "buckets"), args.latency, args.bandwidth)
        os.environ["AWS_ENDPOINT_URL"] = bucket.url
        print(f"a bucket at {bucket.url}: {args.latency} a request, {args.bandwidth}")
        make_shards(raw, os.path.join(folder, "buckets", "data", "shards"), keys)
        subprocess.run([leat_command, "pack", "s3://data/raw", "s3://data/packed", "--quiet"], check=True)
        subprocess.run([leat_command, "index", "s3://data/raw", "s3://data/index", "--quiet"], check=True)
        report(compete(args, bucket.url, keys))
    finally:
        if bucket:
            bucket.close()
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([leat_command, "agent", "stop"], check=False, capture_output=True)


def compete(args, url, keys):
    """{name: (what it is, result or None)}"""
    kept = "workers, each with a connection that stays open"
    contenders = {
        "PyTorch, objects": (
            f"a DataLoader of {args.workers} {kept}; one GET per picture",
            lambda name: plain(args, name, Objects(url, keys), args.workers, shuffle=True),
        ),
        "PyTorch, tar shards": (
            f"a DataLoader of {args.shard_workers} {kept}; {SHARDS} shards, each in one GET",
            lambda name: plain(args, name, Shards(url), args.shard_workers),
        ),
        "Leat, objects": (
            "the same objects, indexed where they lie",
            lambda name: with_leat(args, name, "s3://data/index"),
        ),
        "Leat, packed": ("chunks of up to 8 MiB", lambda name: with_leat(args, name, "s3://data/packed")),
    }
    results = {}
    for name, (what, run) in contenders.items():
        print(f"\n{name}: {what}")
        results[name] = run(name)
    return results


def plain(args, name, dataset, workers, shuffle=None):
    if DataLoader is None:
        print("  torch is not installed: nothing to compare with")
        return None
    warnings.filterwarnings("ignore", "This DataLoader will create")  # workers mostly wait for the bucket
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=shuffle,
        num_workers=workers,
        persistent_workers=True,
        prefetch_factor=4,
    )
    return train(name, lambda: loader, args.epochs)


def with_leat(args, name, url):
    import leat

    with leat.Loader(
        url,
        batch_size=args.batch_size,
        shuffle=True,
        seed=0,
        last="short",
        ram="256mib",
        linger="1s",
        fields={"x": leat.image("jpg").random_resized_crop(CROP).flip(), "y": leat.int("cls")},
    ) as loader:
        return train(name, lambda: loader, args.epochs)


def report(results):
    print(f"\n  {'':20} {'time':>9} {'waited':>9} {'samples/s':>10}")
    for name, result in results.items():
        if result:
            print(f"  {name:20} {result[0]:7.1f} s {result[1]:7.1f} s {result[2]:10.0f}")
    if all(results.values()):
        print("\non this machine, with this bucket:")
        for layout in ("objects", "tar shards"):
            peer, ours = f"PyTorch, {layout}", "Leat, objects" if layout == "objects" else "Leat, packed"
            print(f"  {ours} was {results[peer][0] / results[ours][0]:.1f} times as fast as {peer}")


if __name__ == "__main__":
    main()
