"""make demo: the same training from the same slow bucket, fed by plain PyTorch and by Leat.

Makes a small image dataset, serves it like a bucket far away, packs it, trains a small network for a few epochs each
way and prints the times and the waits. Everything happens in a temporary folder that is gone afterwards.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings

LABELS = ("dots", "lines", "waves", "noise")
CROP = 64


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


class Objects:
    """What one would write first: a dataset that gets every picture from the bucket when it is asked for."""

    def __init__(self, url, keys):
        self.url, self.keys = url, keys

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, i):
        import numpy
        import torch
        from PIL import Image

        label, _, _ = self.keys[i].partition("/")
        with urllib.request.urlopen(f"{self.url}/data/raw/{self.keys[i]}") as answer:
            picture = Image.open(io.BytesIO(answer.read())).convert("RGB")
        # RandomResizedCrop and flip, as torchvision draws them
        w, h = picture.size
        area = w * h * random.uniform(0.08, 1)
        ratio = random.uniform(3 / 4, 4 / 3)
        cw, ch = min(w, round((area * ratio) ** 0.5)), min(h, round((area / ratio) ** 0.5))
        left, top = random.randint(0, w - cw), random.randint(0, h - ch)
        picture = picture.resize((CROP, CROP), Image.BILINEAR, (left, top, left + cw, top + ch))
        pixels = numpy.asarray(picture)
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(pixels.copy()), LABELS.index(label)


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
        print(f"  {name:8} epoch {epoch + 1}: {took:6.1f} s so far, waited {wait:6.1f} s, loss {loss:.3f}")
    total = time.monotonic() - began
    return total, wait, samples / total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=8, help="of the plain DataLoader")
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
        subprocess.run([leat_command, "pack", "s3://data/raw", "s3://data/packed", "--quiet"], check=True)
        print("packed into s3://data/packed\n")
        results = {"PyTorch": plain(args, bucket.url, keys), "Leat": with_leat(args)}
        report(results)
    finally:
        if bucket:
            bucket.close()
        subprocess.run([leat_command, "agent", "stop"], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def plain(args, url, keys):
    warnings.filterwarnings("ignore", "This DataLoader will create")  # workers mostly wait for the bucket
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        print("  torch is not installed: no plain DataLoader to compare with")
        return None
    loader = DataLoader(
        Objects(url, keys),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=True,
        drop_last=True,
        prefetch_factor=4,
    )
    return train("PyTorch", lambda: loader, args.epochs)


def with_leat(args):
    import leat

    with leat.Loader(
        "s3://data/packed",
        batch_size=args.batch_size,
        shuffle=True,
        seed=0,
        ram="256mib",
        linger="1s",
        fields={"x": leat.image("jpg").random_resized_crop(CROP).flip(), "y": leat.int("cls")},
    ) as loader:
        return train("Leat", lambda: loader, args.epochs)


def report(results):
    print(f"\n  {'':8} {'time':>9} {'waited':>9} {'samples/s':>10}")
    for name, result in results.items():
        if result:
            print(f"  {name:8} {result[0]:7.1f} s {result[1]:7.1f} s {result[2]:10.0f}")
    if all(results.values()):
        print(f"\n  {results['PyTorch'][0] / results['Leat'][0]:.1f} times as fast, on this machine, with this bucket")


if __name__ == "__main__":
    main()
