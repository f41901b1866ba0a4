"""A training on a GPU, fed from a slow bucket: Loader(device="cuda") beside synthetic data, `.to("cuda")` and torchvision.

python bench/bench_gpu.py [--images 24000] [--steps 150] [--models resnet50,resnet18] [--out FILE]

Needs a GPU, torch, torchvision, Pillow and an installed leat. Makes its pictures itself: noise over many scales, with the
sizes and the compressed bytes of photographs. Every contender is a process of its own, with synthetic data measured before
and after it in the same process: what counts is the ratio.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from multiprocessing import Pool
from pathlib import Path

BATCH = 256
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODELS = {"resnet50": 224, "resnet18": 176}


def make_picture(task):
    """Noise whose strength falls with frequency, as in photographs: about 100 KB at 500 x 375."""
    import io

    import numpy
    from PIL import Image

    path, seed = task
    draw = numpy.random.default_rng(seed)
    height, width = (375, 500) if seed % 3 else (500, 375)
    picture = numpy.zeros((height, width, 3), dtype=numpy.float32)
    for level in range(8):
        side = 2 << level
        noise = draw.standard_normal((min(side, height), min(side, width), 3)).astype(numpy.float32)
        layers = [
            numpy.asarray(Image.fromarray(noise[..., c]).resize((width, height), Image.Resampling.BICUBIC))
            for c in range(3)
        ]
        picture += numpy.stack(layers, axis=2) * (60 / (1 + level) ** 0.5)
    picture = numpy.clip(picture + 120, 0, 255).astype(numpy.uint8)
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=90)
    Path(path).write_bytes(data.getvalue())
    return len(data.getvalue())


def make_data(folder, images):
    """A few hundred different pictures, linked as often as is needed: decoders do not care, and disks are small."""
    folder.mkdir(parents=True)
    distinct = min(images, 2000)
    source = folder.parent / "pictures"
    source.mkdir()
    with Pool() as pool:
        sizes = pool.map(make_picture, [(str(source / f"{i}.jpg"), i) for i in range(distinct)], chunksize=8)
    for c in range(100):
        (folder / f"c{c:03d}").mkdir()
    for i in range(images):
        os.link(source / f"{i % distinct}.jpg", folder / f"c{i % 100:03d}" / f"{i:07d}.jpg")
    return sum(sizes) / len(sizes)


def fields(leat, size, tail):
    x = leat.image("jpg").random_resized_crop(size).flip()
    if tail:
        x = x.normalize(MEAN, STD).dtype("bfloat16").layout("channels_last")
    return {"x": x, "y": leat.int("cls")}


def open_leat(options, device):
    import leat

    return leat.Loader(
        options.url,
        batch_size=BATCH,
        shuffle=True,
        fields=fields(leat, MODELS[options.model], device is not None),
        ram=options.ram,
        endpoint_url=options.endpoint,
        anonymous=True,
        device=device,
        linger="100ms",
    )


def forever(loader):
    while True:
        yield from loader


def by_hand(options):
    """What a program without device= does."""
    import torch

    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1) * 255
    std = torch.tensor(STD, device="cuda").view(1, 3, 1, 1) * 255
    loader = open_leat(options, None)
    return loader, (
        (((x.to("cuda").permute(0, 3, 1, 2).float() - mean) / std).to(torch.bfloat16), y.to("cuda"))
        for x, y in forever(loader)
    )


def with_device(options):
    loader = open_leat(options, "cuda")
    return loader, forever(loader)


def torchvision_loader(options):
    """torchvision's recipe, from local files in the page cache: the best that it can do."""
    import torch
    import torchvision
    from torchvision.transforms import v2

    size = MODELS[options.model]
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(size, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
        ]
    )
    data = torchvision.datasets.ImageFolder(options.files, transform)
    loader = torch.utils.data.DataLoader(
        data,
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=os.cpu_count(),
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=4,
    )
    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1) * 255
    std = torch.tensor(STD, device="cuda").view(1, 3, 1, 1) * 255
    return None, (
        (
            ((x.to("cuda", non_blocking=True).float() - mean) / std)
            .to(torch.bfloat16)
            .to(memory_format=torch.channels_last),
            y.to("cuda", non_blocking=True),
        )
        for x, y in forever(loader)
    )


CONTENDERS = {"device": with_device, "to": by_hand, "torchvision": torchvision_loader}


def cpu_seconds(pid):
    """User and system time of a process, its threads and the children it waited for."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(words[k]) for k in (11, 12)) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    text = ""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
    return int(found.group(1)) * 1024 if found else 0


def children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(path.parent.name))
    return found


def run_contender(options):
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    size = MODELS[options.model]
    model = getattr(torchvision.models, options.model)().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    fast = torch.compile(model)

    def step(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(fast(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    x = torch.randn(BATCH, 3, size, size, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    y = torch.randint(0, 100, (BATCH,), device="cuda")

    def synthetic(steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            step(x, y)
        torch.cuda.synchronize()
        return steps * BATCH / (time.perf_counter() - began)

    synthetic(20)
    before = synthetic(options.steps // 2)
    loader, batches = CONTENDERS[options.contender](options)
    for _ in range(options.warm):
        step(*next(batches))
    pids = {"rank": os.getpid(), "agent": loader.stats()["agent_pid"] if loader else 0}
    workers = children(os.getpid()) if not loader else []
    torch.cuda.synchronize()
    cpu = {name: cpu_seconds(pid) for name, pid in pids.items()}
    cpu["workers"] = sum(map(cpu_seconds, workers))
    calls = []
    began = time.perf_counter()
    for _ in range(options.steps):
        asked = time.perf_counter()
        batch = next(batches)
        calls.append(time.perf_counter() - asked)
        step(*batch)
    torch.cuda.synchronize()
    took = time.perf_counter() - began
    pictures = options.steps * BATCH
    cpu = {
        "rank": cpu_seconds(pids["rank"]) - cpu["rank"],
        "agent": cpu_seconds(pids["agent"]) - cpu["agent"],
        "workers": sum(map(cpu_seconds, workers)) - cpu["workers"],
    }
    held = {name: memory(pid) for name, pid in pids.items() if pid}
    held["workers"] = sum(map(memory, workers))
    result = {
        "model": options.model,
        "contender": options.contender,
        "images_per_s": pictures / took,
        "next_us": {
            "median": statistics.median(calls) * 1e6,
            "p90": statistics.quantiles(calls, n=10)[8] * 1e6,
            "max": max(calls) * 1e6,
        },
        "cpu_cores": {name: value / took for name, value in cpu.items()},
        "memory": held,
    }
    if loader:
        result["stats"] = {
            k: v
            for k, v in loader.stats().items()
            if k in ("wait_s", "wait_by_cause_s", "bytes_by_source", "batches_ready")
        }
        del batches
        loader.close()
    after = synthetic(options.steps // 2)
    result["synthetic"] = [before, after]
    result["of_synthetic"] = result["images_per_s"] / statistics.mean((before, after))
    print(json.dumps(result), flush=True)


BUCKET = Path(__file__).with_name("plain_bucket.py")
BOXES = [
    ["leat", "serve", "--latency", "50ms", "--bandwidth", "1GB/s", "--connection-bandwidth", "50MB/s", "--port", "0"],
    [sys.executable, str(BUCKET), "--latency", "0.05", "--bandwidth", "1e9", "--connection-bandwidth", "50e6"],
]


@contextlib.contextmanager
def serving(folder):
    """The URL of a bucket with this folder in it: of `leat serve`, or of a plain one, since the command of a wheel has none."""
    for command in BOXES:
        process = subprocess.Popen([*command, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            found = next(filter(None, (re.search(r"http://[\w.]+:\d+", line) for line in process.stdout)), None)
            if found:
                yield found.group(0)
                return
        finally:
            process.terminate()
            process.wait()
    raise SystemExit("no bucket in a box did start")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=24000)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument(
        "--warm", type=int, default=90, help="steps before the measurement: more than anybody reads ahead"
    )
    parser.add_argument("--models", default="resnet50,resnet18")
    parser.add_argument("--contenders", default="device,to,torchvision")
    parser.add_argument("--out")
    for name in ("contender", "model", "url", "endpoint", "ram", "files"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        run_contender(options)
        return
    import torch

    if not torch.cuda.is_available():
        print("there is no GPU here: nothing is measured")
        return
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        began = time.monotonic()
        size = make_data(root / "files", options.images)
        (root / "bucket").mkdir()
        subprocess.run(["leat", "pack", "--quiet", str(root / "files"), str(root / "bucket" / "set")], check=True)
        print(
            f"{options.images} pictures of {size / 1e3:.0f} KB, made and packed in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        ram = str(int(options.images * size / 4))
        with serving(root) as endpoint:
            for model in options.models.split(","):
                for contender in options.contenders.split(","):
                    command = [
                        sys.executable,
                        __file__,
                        "--contender",
                        contender,
                        "--model",
                        model,
                        "--endpoint",
                        endpoint,
                    ]
                    command += ["--url", "s3://bucket/set", "--ram", ram, "--files", str(root / "files")]
                    command += ["--steps", str(options.steps), "--warm", str(options.warm)]
                    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
                    print(done.stdout.strip() or f"{model} {contender}: exit {done.returncode}", flush=True)
                    if done.returncode == 0:
                        results.append(json.loads(done.stdout.strip().splitlines()[-1]))
    machine = (
        f"{torch.cuda.get_device_name(0)}, {os.cpu_count()} cores, torch {torch.__version__}, {platform.platform()}"
    )
    print(f"\n{machine}, {date.today()}\n")
    print("| model | batches | images/s | of synthetic | next() | cores: rank, agent, workers | memory |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for r in results:
        cores = ", ".join(f"{r['cpu_cores'][k]:.1f}" for k in ("rank", "agent", "workers"))
        held = ", ".join(f"{name} {value / 1e9:.1f} GB" for name, value in r["memory"].items() if value)
        print(
            f"| {r['model']} | {r['contender']} | {r['images_per_s']:,.0f} | {r['of_synthetic'] * 100:.1f} % "
            f"| {r['next_us']['median']:.0f} us | {cores} | {held} |"
        )
    if options.out:
        Path(options.out).write_text(
            json.dumps({"machine": machine, "date": str(date.today()), "results": results}, indent=1)
        )


if __name__ == "__main__":
    main()
