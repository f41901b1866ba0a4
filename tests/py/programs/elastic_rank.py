"""A rank of a training that saves a checkpoint every few steps and goes on from it when torchrun starts it again. What it got
stands in a file of its own, step by step: ranks that are killed must not leave half a line in another's."""

import json
import os
import sys
import time

import leat
import torch
import torch.distributed as dist

job = json.loads(sys.argv[1])
path = os.path.join(job["folder"], "checkpoint.pt")
dist.init_process_group("gloo")
rank = dist.get_rank()
net = torch.nn.Linear(1, 1)
loader = leat.Loader(
    job["url"], fields={"k": leat.key()}, global_batch_size=8, seed=1, window=8, last="short", timeout=60
)
step = begun = 0
if os.path.exists(path):
    saved = torch.load(path)
    net.load_state_dict(saved["net"])
    loader.load_state_dict(saved["data"])
    step = begun = saved["step"]
with open(os.path.join(job["folder"], f"rank-{os.getpid()}.jsonl"), "w") as out:

    def say(**what):
        out.write(json.dumps(what) + "\n")
        out.flush()

    say(start=step, rank=rank, world=dist.get_world_size())
    for (keys,) in loader:
        say(step=step, keys=list(map(str, keys)))
        dist.all_reduce(torch.ones(1))
        step += 1
        if rank == 0 and step % 5 == 0:
            torch.save({"net": net.state_dict(), "data": loader.state_dict(), "step": step}, path + ".new")
            os.replace(path + ".new", path)
        while step == job["wait_at"] and not begun:
            time.sleep(0.1)  # until one of the machines is killed
            dist.all_reduce(torch.ones(1))
    say(done=step, stats=loader.stats())
loader.close()
dist.destroy_process_group()
