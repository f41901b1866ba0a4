"""On a machine with one GPU: DDP under `leat profile --time`, two ranks that share the GPU (gloo; nccl wants a GPU for each) and one rank
with nccl. What they come to has to be the same as without the profiler, bit for bit, in files that they write on the way too; and the
report has to have the runs and links of a GPU.

    python3 tests/gpu/check_ranks.py         needs torch with CUDA and an installed leat
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TRAIN = """
import hashlib, json, os, sys, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
dist.init_process_group(sys.argv[1])
torch.cuda.set_device(0)
torch.use_deterministic_algorithms(True)
rank = dist.get_rank()
torch.manual_seed(1)
class Rows(Dataset):
    def __len__(self): return 64 * 300
    def __getitem__(self, i):
        if i % 64 == 0: time.sleep(0.004)
        return torch.full((256,), i % 11 / 11), i % 10
net = torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048), torch.nn.Linear(2048, 10)).cuda()
ema = [p.detach().clone() for p in net.parameters()]
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
def digest(tensors):
    return hashlib.sha256(b"".join(t.detach().cpu().numpy().tobytes() for t in tensors)).hexdigest()[:16]
saved, kept = torch.zeros((), device="cuda"), {}
for x, y in DataLoader(Rows(), batch_size=64, pin_memory=True):
    x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    saved += 1
    with torch.no_grad():
        for mean, now in zip(ema, net.parameters()):
            mean.lerp_(now, 0.1)
    if rank == 0 and int(saved) % 50 == 0:
        kept[int(saved)] = digest([v.cpu() for v in net.state_dict().values()])
kept = {step: one for step, one in kept.items() if step % 50 == 0}
sys.stdout.write(f"rank {rank} {digest(net.parameters())} {digest(ema)} {scaler.get_scale()} {kept}\\n")
sys.stdout.flush()
dist.barrier()
os._exit(0)
"""


def main():
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "GLOO_SOCKET_IFNAME": "lo"}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "train.py", Path(folder) / "report.json"
        script.write_text(TRAIN)
        for backend, ranks in (("gloo", 2), ("nccl", 1)):
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
            plain = subprocess.run([*launch, script, backend], env=env, capture_output=True, text=True, check=True)
            command = ["leat", "profile", "--time", "40s", "-o", out, "--", *launch, script, backend]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            same = sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines())
            report = json.loads(out.read_text())
            modes = {run["mode"] for run in report["runs"]}
            links = {(link["scope"], link["backend"], link["ranks"]) for link in report["links"]}
            print(done.stderr)
            print(f"{backend}, {ranks} ranks: the same {same}, runs {sorted(modes)}, links {links}", flush=True)
            if not same:
                print(plain.stdout, done.stdout)
            wrong += not same or not modes >= {"observed", "synthetic", *(["alone", "single"] if ranks > 1 else [])}
    sys.exit(wrong)


if __name__ == "__main__":
    main()
