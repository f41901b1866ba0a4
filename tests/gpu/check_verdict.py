"""On a machine with a GPU: what `leat profile` says of a plain torchvision training beside what it really loses against batches
from memory, what watching costs, what `leat whatif --loader leat` says that Leat would make of it, and what Leat then makes of it.
With --cpu, on its many quiet cores: the fifty injected stalls, and what-if against measured runs.

    python3 tests/gpu/check_verdict.py [--images 40000] [--steps 400]
    python3 tests/gpu/check_verdict.py --cpu

Needs torch with CUDA, torchvision, Pillow and an installed leat, a wheel for instance: the bucket that Leat reads from at the end is
bench/plain_bucket.py where the command has none.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import bench_gpu  # noqa: E402

TRAIN = """
import os, sys, time
import torch, torchvision
from torchvision.transforms import v2

files, steps, synthetic = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["synthetic"]
torch.backends.cudnn.benchmark = True
data = torchvision.datasets.ImageFolder(files, v2.Compose(
    [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor()]))
loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, drop_last=True, num_workers=os.cpu_count(),
                                     pin_memory=True, persistent_workers=True, prefetch_factor=4)
if synthetic:
    class Same(torch.utils.data.Dataset):
        kept = [part.pin_memory() for part in next(iter(torch.utils.data.DataLoader(data, batch_size=256)))]
        def __len__(self): return 100000
        def __getitem__(self, i): return self.kept
    loader = torch.utils.data.DataLoader(Same(), batch_size=None)
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


def rate(out):
    found = re.findall(r"^images/s ([0-9.]+)", out, flags=re.M)
    return float(found[-1]) if found else float("nan")


def judge(report, real, synthetic):
    """Attribution beside the truth, which was measured without the profiler."""
    observed = next(one for one in json.loads(report.read_text())["runs"] if one["mode"] == "observed")
    step = observed["step_s"][0]
    waits = sum(observed["parts_s"][part] for part in ("fetch", "prepare", "input")) / step
    print(
        f"verdict: waits {100 * waits:.1f} % of the step, truth {100 * (1 - real / synthetic):.1f} %; prepare alone "
        f"{100 * observed['parts_s']['prepare'] / step:.1f} %; a step {1e3 * step:.1f} ms, truth {256e3 / real:.1f} ms"
    )


def on_cores():
    """Fifty stalls, four at a time; then the settings of what-if, each on two cores whose other threads rest."""
    leat, root = shutil.which("leat"), BENCH.parent
    sys.path.insert(0, str(root / "tests" / "py"))
    import bench_whatif
    import profile_cases

    def one(case, ranks):
        with tempfile.TemporaryDirectory() as folder:
            return profile_cases.run(leat, case, ranks, folder, steps=100)

    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda row: (row, one(*row)), profile_cases.cases()))
    right, within = 0, 0
    for (case, ranks), found in rows:
        off, first = profile_cases.judge(case, found)
        points = max(map(abs, off.values()))
        right, within = right + first, within + (points <= 1)
        if not first or points > 1:
            print(case, ranks, found, off, "" if first else "WRONG", flush=True)
    print(f"the right cause first in {right} of {len(rows)}; within 1 point {within}", flush=True)

    names = ["storage is", "cores are", "storage, then", "no workers"]
    cores = bench_whatif.apart(2 * len(names))
    together = max(1, len(cores) // 2)
    for start in range(0, len(names), together):
        whatif = []
        for i, name in enumerate(names[start : start + together]):
            command = [sys.executable, "bench_whatif.py", "--leat", leat, "--only", name]
            command += ["--cpus", ",".join(str(core) for core in cores[2 * i : 2 * i + 2])]
            whatif.append(subprocess.Popen(command, cwd=BENCH, stdout=subprocess.PIPE, text=True))
        for process in whatif:
            print(process.communicate()[0], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=40000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--cpu", action="store_true", help="the fifty stalls and what-if, and no GPU")
    parser.add_argument("--out", help="a folder for the reports")
    options = parser.parse_args()
    if options.cpu:
        on_cores()
        return
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
        synthetic = rate(run([*plain, "synthetic"]))
        watched = rate(run(["leat", "profile", "-o", out / "watched.json", "--", *plain, "synthetic"]))
        print(f"watched: {100 * (synthetic / watched - 1):+.2f} % of a step")
        real = rate(run(plain))
        run(["leat", "profile", "--time", "60s", "-o", out / "report.json", "--", *plain])
        judge(out / "report.json", real, synthetic)
        prepared = prepares(str(packed))
        whatif = ["leat", "whatif", out / "report.json", "--loader", "leat", "--prep", str(int(prepared))]
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
