"""A training on two ranks for test_profile_faults.py: profile_apart.py WHAT RANK FILE. WHAT fails on that rank within the profiler
("none": nothing does). Rank 0 saves its weights into FILE now and then. Each rank says what it has learned, in one piece."""

import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

WHAT, RANK, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def fail(*args, **kwargs):
    raise MemoryError("injected")


def inject():
    import _leat_fetch
    import _leat_replay

    where = {
        "snapshot": (_leat_replay.snapshots.Snapshot, "__init__"),
        "park": (_leat_fetch.Park, "close"),
        "modes": (_leat_replay.Replayer, "next_mode"),
        "clone": (_leat_replay, "versions"),
    }
    setattr(*where[WHAT], fail)


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == RANK and WHAT != "none":
    inject()
torch.manual_seed(rank)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 3))
optimizer = torch.optim.Adam(net.parameters())
data = TensorDataset(torch.rand(800, 8), torch.arange(800) % 3)
saved = []
for i, (x, y) in enumerate(DataLoader(data, batch_size=2)):
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 17 == 16 and rank == 0:
        torch.save(net.module.state_dict(), FILE)
weights = [p.double().sum().item() for p in net.parameters()]
sys.stdout.write(f"rank {rank}: {weights}\n")
sys.stdout.flush()
dist.barrier()
os._exit(0)
