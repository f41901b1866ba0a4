"""A training of its own among machines that share through etcd: reads epochs and says, batch by batch as JSON, what it got and
from where it would resume. Without torch."""

import json
import sys
import time

import leat
import namespace

namespace.enter()
job = json.loads(sys.argv[1])
loader = leat.Loader(
    job["url"], fields={"x": leat.bytes("bin"), "k": leat.key()}, batch_size=job.get("batch", 4), seed=job.get("seed", 1),
    timeout=60, window=8, last="short", as_numpy=True, **job.get("loader", {}),
)  # fmt: skip
if job.get("state"):
    loader.load_state_dict(job["state"])
epoch = -1
while epoch + 1 < job.get("epochs", 1):
    for data, keys in loader:
        state = loader.state_dict()
        epoch = state["streams"][0]["epoch"]  # after an epoch's last batch the state names the next epoch
        said = {"epoch": epoch, "keys": list(map(str, keys)), "sums": [len(bytes(x)) for x in data], "state": state}
        print(json.dumps(said), flush=True)
        time.sleep(job.get("pause", 0))
    print(json.dumps({"done": epoch, "stats": loader.stats(), "state": loader.state_dict()}), flush=True)
