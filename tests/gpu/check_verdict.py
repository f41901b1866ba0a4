"""On a machine with a GPU: what `leat profile` says of a plain torchvision training, what `leat whatif --loader leat` says that
Leat would make of it, and what Leat then makes of it.

    python3 tests/gpu/check_verdict.py [--images 40000] [--steps 400]

Needs torch with CUDA, torchvision, Pillow and an installed leat (the wheel).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import bench_gpu  # noqa: E402

TRAIN = """
import os, sys, time
import torch, torchvision
from torchvision.transforms import v2

files, steps = sys.argv[1], int(sys.argv[2])
torch.backends.cudnn.benchmark = True
data = torchvision.datasets.ImageFolder(files, v2.Compose(
    [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor()]))
loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, drop_last=True, num_workers=os.cpu_count(),
                                     pin_memory=True, persistent_workers=True, prefetch_factor=4)
net = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
fast = torch.compile(net)
mean = torch.tensor((0.485, 0.456, 0.406), device="cuda").view(1, 3, 1, 1) * 255
std = torch.tensor((0.229, 0.224, 0.225), device="cuda").view(1, 3, 1, 1) * 255
done, began = 0, None
while done < steps:
    for x, y in loader:
        x = ((x.to("cuda", non_blocking=True).float() - mean) / std).to(torch.bfloat16)
        x, y = x.to(memory_format=torch.channels_last), y.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(fast(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done += 1
        if done == steps // 3:
            torch.cuda.synchronize()
            began = time.perf_counter()
        if done >= steps:
            break
torch.cuda.synchronize()
print("images/s", (steps - steps // 3) * 256 / (time.perf_counter() - began), flush=True)
"""


def run(command, **more):
    print("$", " ".join(str(word) for word in command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    print(done.stdout.strip(), f"(exit {done.returncode})" if done.returncode else "", flush=True)
    return done.stdout


def prepares(url):
    """Pictures per second that one core prepares, as `leat doctor` measures it."""
    done = subprocess.run(["leat", "doctor", "--json", url], stdout=subprocess.PIPE, text=True, check=False)
    decode = next(one for one in json.loads(done.stdout)["findings"] if one["name"] == "decode")
    print(decode["found"], flush=True)
    return decode["pictures_per_s"] / decode["cores"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=40000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plain", action="store_true", help="run it without the profiler first")
    parser.add_argument("--out", help="a folder for the reports")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        out = Path(options.out or scratch)
        size = bench_gpu.make_data(root / "files", options.images)
        (root / "bucket").mkdir()
        packed = root / "bucket" / "set"
        subprocess.run(["leat", "pack", "--quiet", str(root / "files"), str(packed)], check=True)
        script = root / "train.py"
        script.write_text(TRAIN)
        plain = [sys.executable, script, root / "files", str(options.steps)]
        if options.plain:
            run(plain)
        run(["leat", "profile", "--time", "45s", "-o", out / "report.json", "--", *plain])
        rate = prepares(str(packed))
        whatif = ["leat", "whatif", out / "report.json", "--loader", "leat", "--prep", str(int(rate))]
        whatif += ["--sample-bytes", str(int(size)), "--samples", str(options.images), "--latency", "50ms"]
        whatif += ["--bandwidth", "1GB/s"]
        run(whatif)
        said = json.loads(subprocess.run([*whatif, "--json"], stdout=subprocess.PIPE, text=True).stdout)
        (out / "whatif.json").write_text(json.dumps(said, indent=1))
        with bench_gpu.serving(root) as endpoint:
            command = [sys.executable, BENCH / "bench_gpu.py", "--contender", "device", "--model", "resnet50"]
            command += [
                "--endpoint",
                endpoint,
                "--url",
                "s3://bucket/set",
                "--ram",
                str(int(max(options.images * size / 4, 2e9))),
            ]
            run([*command, "--files", root / "files", "--steps", "150", "--warm", "90"])
    print("cores", os.cpu_count())


if __name__ == "__main__":
    main()
