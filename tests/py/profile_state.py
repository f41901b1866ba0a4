"""What else trainings keep and write, for test_profile_state.py: profile_state.py KIND FILE, alone or under torchrun. Prints what came
out of it, which must not depend on differential blocks: weights and their average at the end, and the weights that were kept on the
way, by the number of the step. (Where nothing is kept, those of all steps.)"""

import copy
import gc
import hashlib
import json
import os
import random
import sys
import threading
import time

import numpy
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

KIND, FILE = sys.argv[1:]
STEPS = 150
torch.set_num_threads(1)
if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank = dist.get_rank() if dist.is_initialized() else 0


class Rows(Dataset):
    def __len__(self):
        return 2 * STEPS * (dist.get_world_size() if dist.is_initialized() else 1)

    def __getitem__(self, i):
        return torch.full((8,), i % 7 / 7) + torch.arange(8) / 8, i % 3


def digest(values):
    return hashlib.sha256(b"".join(v.detach().numpy().tobytes() for v in values)).hexdigest()[:16]


torch.manual_seed(3)
net = torch.nn.Linear(8, 3)
weight = torch.randn(3, requires_grad=True)  # of no module
parameters = [*net.parameters(), weight]
optimizer = torch.optim.Adam(parameters)
model = torch.nn.parallel.DistributedDataParallel(net) if dist.is_initialized() else net
average = [p.detach().clone() for p in parameters]  # as some libraries keep one: in no module
seen = torch.zeros(())
read = 0
sampler = torch.utils.data.DistributedSampler(Rows()) if dist.is_initialized() else None
kept = {}


class Draws:
    """Numbers from a generator of its own."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self):
        return torch.rand((), generator=self.generator).item()


def with_noise(loader, in_a_dict, in_a_tuple):
    """Adds to each batch what every generator draws. Each is held by another kind of thing."""
    in_a_variable, in_an_object = torch.Generator().manual_seed(5), Draws(6)
    legacy, python = numpy.random.RandomState(2), random.Random(3)
    for x, y in loader:
        drawn = [
            torch.rand((), generator=in_a_variable).item(),
            torch.rand((), generator=in_a_dict["one"]["of"]).item(),
            torch.rand((), generator=in_a_tuple[0]).item(),
            in_an_object(),
            numbers.random(),
            legacy.normal(),  # it makes two, and keeps one for later
            python.random(),
        ]
        yield x + sum(drawn), y


numbers = numpy.random.default_rng(1)
order = torch.Generator().manual_seed(9) if KIND == "generators" else None
loader = DataLoader(Rows(), batch_size=2, sampler=sampler, shuffle=sampler is None, generator=order)
if KIND == "generators":
    one, other = torch.Generator().manual_seed(4), torch.Generator().manual_seed(7)
    loader = with_noise(loader, {"one": {"of": one}}, (other,))
    del one, other
    gc.collect()  # which leaves alone from then on what can be in no cycle
if KIND == "frozen":
    gc.freeze()
if KIND == "thread":

    def produce():
        here = random.Random(3)
        while here.random() >= 0:
            time.sleep(0.001)

    threading.Thread(target=produce, daemon=True).start()
cache = torch.zeros(1 << 29 if KIND == "cache" else 1)  # never touched: it takes no memory
for x, y in loader:
    if KIND == "rates":
        read += 1
        optimizer.param_groups[0]["lr"] = 1e-3 / (1 + read)
    loss = torch.nn.functional.cross_entropy(model(x) * weight, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen += 1
    with torch.no_grad():
        for mean, now in zip(average, parameters, strict=True):
            mean.lerp_(now, 0.1)
    if KIND == "cache":
        cache[int(seen)] = loss.detach()
    if KIND == "fork" and int(seen) % 5 == 0:  # a process of its own has weights of its own
        child = os.fork()
        if child == 0:
            before = digest(net.parameters())
            net.state_dict()
            os._exit(before != digest(net.parameters()))
        read += os.waitpid(child, 0)[1] != 0
    if KIND == "looks":
        net.state_dict()
    if KIND == "plain":
        kept[int(seen)] = digest(net.parameters())
    if KIND in ("copy", "deep", "save") and rank == 0 and int(seen) % 7 == 0:
        if KIND == "copy":
            copied = [value.clone() for value in net.state_dict().values()]
        elif KIND == "deep":
            copied = list(copy.deepcopy(net).parameters())
        else:
            torch.save(net.state_dict(), FILE)
            copied = list(torch.load(FILE).values())
        kept[int(seen)] = digest(copied)
if rank == 0:
    said = {"weights": digest(parameters), "average": digest(average), "seen": int(seen), "kept": kept, "read": read}
    said["order"] = order and digest([order.get_state()])
    sys.stdout.write(json.dumps(said) + "\n")
sys.stdout.flush()
if dist.is_initialized():
    dist.barrier()
    os._exit(0)
