"""On a machine with a GPU: follows a training with the observer of `leat profile`, and compares the GPU's own account of waiting
with what was injected, counts synchronisations with and without the observer, and takes its overhead, also on a compiled
ResNet-50. Needs torch and nothing else.

    python3 tests/gpu/check_profile.py [--quick]
"""

import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

OBSERVER = Path(__file__).resolve().parents[2] / "src" / "profile" / "observer"

CHILD = """
import sys, time
folder, stall, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
if folder != "-":
    sys.path.insert(0, sys.argv[4])
    import observe
    observe.start(folder)
import torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 64 * 200
    def __getitem__(self, i):
        if stall and i % 64 == 0: time.sleep(stall)
        return torch.zeros(64), 0
torch.backends.cuda.matmul.allow_tf32 = True
net = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(12)]).cuda()
first = torch.nn.Linear(64, 4096).cuda()
opt = torch.optim.SGD([*net.parameters(), *first.parameters()], lr=1e-4)
def train(steps):
    n = 0
    for x, y in DataLoader(Data(), batch_size=64, pin_memory=True):
        x = x.to("cuda", non_blocking=True)
        loss = net(first(x).repeat(64, 1)).float().pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        n += 1
        if n == steps: break
train(20)
torch.cuda.synchronize()
start = time.perf_counter()
train(count)
torch.cuda.synchronize()
took = (time.perf_counter() - start) / count
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    train(10)
    torch.cuda.synchronize()
waits = sum(e.count for e in p.key_averages() if "Synchronize" in e.key)
train(3)
print(took * 1e3, waits)
"""


RESNET = """
import os, sys, time
folder, pairs, observer, tests = sys.argv[1:5]
sys.path.insert(0, tests)
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import profile_toggle
observe, plain, watched = profile_toggle.start(observer, folder)

class Block(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.across = nn.Identity()
        if stride != 1 or inside != 4 * width:
            self.across = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
    def forward(self, x):
        return torch.relu(self.body(x) + self.across(x))

layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
inside = 64
for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
    for i in range(blocks):
        layers.append(Block(inside, width, stride if i == 0 else 1))
        inside = 4 * width
layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
net = nn.Sequential(*layers).cuda().to(memory_format=torch.channels_last)
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
x = torch.randint(0, 255, (256, 3, 224, 224), dtype=torch.uint8, device="cuda").to(memory_format=torch.channels_last)
y = torch.randint(0, 1000, (256,), device="cuda")

class Same(Dataset):  # the batch is on the GPU already: what is left is the observer
    def __len__(self): return 100000
    def __getitem__(self, i): return x, y

def train(steps):
    n = 0
    for x, y in DataLoader(Same(), batch_size=None):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x.to(torch.float32) / 255), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        n += 1
        if n == steps: break
def stretch(places):
    profile_toggle.put(places)
    torch.cuda.synchronize()
    start = time.perf_counter()
    train(25)
    torch.cuda.synchronize()
    took = (time.perf_counter() - start) / 25
    profile_toggle.empty(observe)
    return took

def synchronises(places):
    from torch.profiler import profile, ProfilerActivity
    profile_toggle.put(places)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        train(10)
        torch.cuda.synchronize()
    return sum(e.count for e in p.key_averages() if "Synchronize" in e.key)

for places in (plain, watched) * 4:
    stretch(places)
for turn in range(int(pairs)):
    if turn % 2:
        first = stretch(watched)
        print(stretch(plain), first, flush=True)
    else:
        print(stretch(plain), stretch(watched), flush=True)
print(synchronises(plain), synchronises(watched), flush=True)
os._exit(0)
"""


def spans(folder):
    """(kind, start, end) on the GPU's clock, of all lanes."""
    found = []
    for path in Path(folder).glob("lane-*"):
        data = path.read_bytes()
        words = struct.unpack(f"={len(data) // 8}Q", data)
        for i in range(min(words[12], words[2])):
            start, end, what = words[64 + 5 * i : 67 + 5 * i]
            if what >> 16 & 2:
                found.append((what & 255, start, end))
    return found


def child(script, *words):
    said = subprocess.run([sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, check=False)
    if said.returncode:
        sys.exit(said.stderr)
    return said.stdout


def run(folder, stall):
    ms, waits = child(CHILD, folder, stall, 100, OBSERVER).split()
    return float(ms), int(waits)


def main():
    for stall in (0, 0.02):
        times = {"with": [], "without": []}
        syncs = {}
        share = 0.0
        for _ in range(3):
            ms, syncs["without"] = run("-", stall)
            times["without"].append(ms)
            with tempfile.TemporaryDirectory() as folder:
                ms, syncs["with"] = run(folder, stall)
                times["with"].append(ms)
                waits = [(s, e) for kind, s, e in spans(folder) if kind == 1]
                waits = waits[20:110]
                share = sum(e - s for s, e in waits[:-1]) / (waits[-1][0] - waits[0][0])
        best = {name: min(values) for name, values in times.items()}
        print(
            f"stall {stall * 1e3:.0f} ms: a step takes {best['without']:.3f} ms, observed {best['with']:.3f} ms "
            f"(all: {times}); synchronisations in 10 steps {syncs['without']}, observed {syncs['with']}; "
            f"the GPU waits for data {100 * share:.1f} % of the step"
        )


def overhead(pairs):
    """Compiled ResNet-50, batch 256, bf16, channels last: stretches with and without the observer in turn, in one process."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        *rows, syncs = child(RESNET, folder, pairs, OBSERVER, OBSERVER.parents[2] / "tests" / "py").splitlines()
    times = [[1e3 * float(word) for word in row.split()] for row in rows]
    step = statistics.fmean(plain for plain, _ in times)
    added = [100 * (watched - plain) / step for plain, watched in times]
    half = 1.98 * statistics.stdev(added) / len(added) ** 0.5
    alone, watched = syncs.split()
    print(
        f"ResNet-50, compiled: a step takes {step:.3f} ms ({256e3 / step:.0f} images/s); watching adds {statistics.fmean(added):+.3f} "
        f"± {half:.3f} % in the mean of {len(added)} pairs of 25 steps (95 %), {statistics.median(added):+.3f} % in the middle one; "
        f"synchronisations in 10 steps {alone}, watched {watched}"
    )


if __name__ == "__main__":
    main()
    if "--quick" not in sys.argv[1:]:
        overhead(90)
