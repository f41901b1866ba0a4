"""A transform in Python, in Leat's workers and in a DataLoader's: tables, and bench/out/transform.json.

python bench/bench_transform.py [--build build/release] [--samples 4000] [--workers 2] [--rounds 3] [--epochs 3]

The same functions on the same samples with the same number of workers, in turns. *pixels*: arrays of 224x224x3 bytes, which a
DataLoader takes from a file that is mapped: no decoding, so that what is measured is the way to the workers and back. *jpeg*:
pictures, which Leat's agent decodes and crops in C, and a DataLoader's workers by Pillow. *light* is a flip, *heavy* is jitter
and blur in numpy. Rates are of the epochs after the first; CPU is of all processes, agent included, per sample.
"""

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy
from common import ROOT, scratch, shown, spread, table, write

BATCH = 64
SIDE = 224


def light(sample):
    """A flip, half of the time."""
    x, y = sample
    return (x[:, ::-1] if numpy.random.random() < 0.5 else x), y


def heavy(sample):
    """Jitter of contrast and brightness, and a blur, in float32."""
    x, y = sample
    x = numpy.asarray(x, numpy.float32)
    contrast, brightness = numpy.random.uniform(0.6, 1.4, 2).astype(numpy.float32)
    x = (x - x.mean()) * contrast + 128 * brightness
    for axis in (0, 1):
        x = 0.25 * numpy.roll(x, 1, axis) + 0.5 * x + 0.25 * numpy.roll(x, -1, axis)
    return x.clip(0, 255).astype(numpy.uint8), y


TRANSFORMS = {"light": light, "heavy": heavy}


class Pixels:
    """What a map-style dataset over a mapped file is."""

    def __init__(self, path, transform):
        self.pixels = numpy.load(path, mmap_mode="r")
        self.transform = transform

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        x, y = self.transform((numpy.array(self.pixels[i]), i % 10))
        return numpy.ascontiguousarray(x), y


class Pictures:
    """… over files of pictures: RandomResizedCrop by Pillow, as torchvision does it."""

    def __init__(self, folder, transform):
        self.paths = sorted(Path(folder).iterdir())
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        from bench_prep import draw_crop
        from PIL import Image

        image = Image.open(io.BytesIO(self.paths[i].read_bytes())).convert("RGB")
        x, y, w, h = draw_crop(*image.size)
        image = image.resize((SIDE, SIDE), Image.BILINEAR, box=(x, y, x + w, y + h))
        x, y = self.transform((numpy.array(image), i % 10))
        return numpy.ascontiguousarray(x), y


def epochs_of(loader, epochs):
    """Seconds of each epoch but the first, and samples of one."""
    seconds = []
    for _ in range(epochs):
        began, n = time.monotonic(), 0
        for x, _ in loader:
            n += len(x)
            del x
        seconds.append(time.monotonic() - began)
    return seconds[1:], n


def cpu_s(*pids):
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ticks = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13] for pid in pids]
    return own + sum(int(t) for pair in ticks for t in pair) / os.sysconf("SC_CLK_TCK")


def run_leat(data, kind, name, workers, epochs):
    import leat

    x = leat.array("x") if kind == "pixels" else leat.image("jpg").random_resized_crop(SIDE)
    y = leat.int("y") if kind == "pixels" else leat.index()
    loader = leat.Loader(
        f"{data}/{kind}.ds",
        fields={"x": x, "y": y},
        batch_size=BATCH,
        ram="4gb",
        threads=workers,
        linger="100ms",
        transform=TRANSFORMS[name],
        transform_workers=workers,
        as_numpy=True,
    )
    seconds, n = epochs_of(loader, epochs)
    agent = loader.stats()["agent_pid"]
    loader._python.close()  # so that its processes are counted
    print(json.dumps({"seconds": seconds, "samples": n, "cpu_s": cpu_s(agent), "agent_pid": agent}))
    loader.close()


def run_torch(data, kind, name, workers, epochs):
    from torch.utils.data import DataLoader

    made = Pixels(f"{data}/x.npy", TRANSFORMS[name]) if kind == "pixels" else Pictures(f"{data}/jpeg", TRANSFORMS[name])
    loader = DataLoader(
        made, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=True
    )
    seconds, n = epochs_of(loader, epochs)
    loader._iterator._shutdown_workers()
    print(json.dumps({"seconds": seconds, "samples": n, "cpu_s": cpu_s()}))


def make_data(build, folder, samples):
    """The same pictures as pixels and as JPEG, for both sides."""
    sys.path.insert(0, str(build / "python"))
    import leat
    from PIL import Image

    draw = numpy.random.default_rng(1)
    pixels = numpy.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=numpy.uint8, shape=(samples, SIDE, SIDE, 3)
    )
    (folder / "jpeg").mkdir()
    with leat.Writer(folder / "pixels.ds", {"x": leat.Array("uint8", (SIDE, SIDE, 3)), "y": "int"}) as writer:
        for i in range(samples):
            small = draw.integers(0, 256, (20, 26, 3), dtype=numpy.uint8)
            picture = Image.fromarray(small).resize((400, 300), Image.BICUBIC)
            picture.save(folder / "jpeg" / f"{i:06}.jpg", quality=90)
            pixels[i] = numpy.asarray(picture.resize((SIDE, SIDE)))
            writer.write({"x": pixels[i], "y": i % 10})
    command = [build / "src" / "cli" / "leat", "pack", "--quiet", folder / "jpeg", folder / "jpeg.ds"]
    subprocess.run([str(word) for word in command], check=True)


def child(build, *args):
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("LEAT_")},
        "PYTHONPATH": str(build / "python"),
        "LEAT_AGENT": str(build / "src" / "cli" / "leat"),
        "LEAT_SCOPE": "bench-transform",
    }
    command = [sys.executable, __file__, *map(str, args)]
    result = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)
    while "agent_pid" in result and Path(f"/proc/{result['agent_pid']}").exists():
        time.sleep(0.05)
    return result


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    options.add_argument("--samples", type=int, default=4000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--run", nargs=4, metavar=("SIDE", "DATA", "KIND", "TRANSFORM"))
    args = options.parse_args()
    if args.run:
        side, *what = args.run
        {"leat": run_leat, "torch": run_torch}[side](*what, args.workers, args.epochs)
        return
    build = args.build.resolve()
    rates, cpu = {}, {}
    with scratch(args.samples * SIDE * SIDE * 3 * 3) as folder:
        make_data(build, folder, args.samples)
        for _ in range(args.rounds):
            for kind in ("pixels", "jpeg"):
                for name in TRANSFORMS:
                    for side in ("leat", "torch"):
                        more = ("--workers", args.workers, "--epochs", args.epochs)
                        got = child(build, "--run", side, folder, kind, name, *more)
                        key = f"{kind}, {name}, {side}"
                        rates.setdefault(key, []).extend(got["samples"] / s for s in got["seconds"])
                        cpu.setdefault(key, []).append(1000 * got["cpu_s"] / got["samples"] / args.epochs)
    names = {"leat": "Leat", "torch": "DataLoader"}
    rows = []
    for key in rates:
        kind, name, side = key.split(", ")
        rows.append([f"{kind}, {name}: {names[side]}", shown(spread(rates[key]), 0), shown(spread(cpu[key]), 2)])
    table(["", "samples/s", "CPU ms per sample"], rows)
    write(
        "transform",
        {
            "workers": args.workers,
            "samples_per_s": {key: spread(v) for key, v in rates.items()},
            "cpu_ms_per_sample": {key: spread(v) for key, v in cpu.items()},
        },
    )


if __name__ == "__main__":
    main()
