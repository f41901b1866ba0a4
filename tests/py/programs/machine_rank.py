"""A rank of a job on several machines: reads epochs and says what it got, batch by batch, as JSON."""

import json
import os
import sys
import time

import leat
import namespace
import torch
import torch.distributed as dist

namespace.enter()
job = json.loads(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
loader = leat.Loader(
    job["url"], fields={"x": leat.bytes("bin"), "k": leat.key()}, batch_size=job.get("batch", 4), seed=1, timeout=60, window=8,
    last="short", **job.get("loader", {}),
)  # fmt: skip
if job.get("state"):
    loader.load_state_dict(job["state"])
for epoch in range(job.get("epochs", 1)):
    for number, (data, keys) in enumerate(loader):
        said = {"rank": rank, "epoch": epoch, "keys": list(map(str, keys)), "sums": [len(bytes(x)) for x in data]}
        print(json.dumps(said), flush=True)
        if number == job.get("stop_at"):
            print(json.dumps({"state": loader.state_dict()}), flush=True)
            os._exit(0)
        if job.get("sync", True):
            dist.all_reduce(torch.ones(1))
        time.sleep(job.get("pause", 0))
    print(json.dumps({"rank": rank, "done": epoch, "stats": loader.stats()}), flush=True)
if job.get("sync", True):
    dist.barrier()  # all agents stay until every rank is done
