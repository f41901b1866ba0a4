"""What watching costs: a small training, in stretches with and without the observer in turn, in one process. Prints JSON: processor
time of the training thread per step of each stretch, and how many functions a step calls and how many of Python's instructions it runs.

python profile_cost.py OBSERVER WORKERS PAIRS           torchrun --nproc-per-node 2 profile_cost.py OBSERVER WORKERS PAIRS
"""

import collections
import json
import os
import shutil
import sys
import tempfile
import time

import profile_toggle
import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset

OBSERVER, WORKERS, PAIRS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
STEPS = 100


class Rows(Dataset):
    def __len__(self):
        return 4 * (STEPS + 1)

    def __getitem__(self, i):
        return torch.ones(16), i % 3


def steps(iterator):
    for x, y in iterator:
        loss = torch.nn.functional.cross_entropy(net(x.to("cpu")), y.to("cpu"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stretch(places, calls=None, instructions=None):
    def trace(frame, event, arg):
        frame.f_trace_opcodes = True
        if event == "opcode":
            instructions[0] += 1
        return trace

    profile_toggle.put(places)
    iterator = iter(DataLoader(Rows(), batch_size=4, num_workers=WORKERS))
    next(iterator)
    if calls is not None:
        sys.setprofile(lambda frame, event, arg: calls.update([event]))
    if instructions is not None:
        sys.settrace(trace)
    start = time.thread_time()
    steps(iterator)
    took = time.thread_time() - start
    sys.settrace(None)
    sys.setprofile(None)
    profile_toggle.empty(observe)
    return took / STEPS


def count(places):
    """(functions that a step calls, instructions that it runs)"""
    calls, instructions = collections.Counter(), [0]
    stretch(places, calls=calls)
    stretch(places, instructions=instructions)
    return (calls["call"] + calls["c_call"]) / STEPS, instructions[0] / STEPS


folder = tempfile.mkdtemp(dir="/dev/shm", prefix="leat-cost-")
try:
    torch.set_num_threads(1)
    observe, plain, watched = profile_toggle.start(OBSERVER, folder)
    net = torch.nn.Linear(16, 3)
    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    stretch(plain)
    stretch(watched)
    said = {"plain": [], "watched": []}
    for name, places in (("plain", plain), ("watched", watched)):
        said[f"{name}_calls"], said[f"{name}_instructions"] = count(places)
    for turn in range(PAIRS):
        order = [("plain", plain), ("watched", watched)]
        for name, places in order[:: 1 - 2 * (turn % 2)]:
            said[name].append(stretch(places))
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    if distributed.is_initialized():
        distributed.barrier()
finally:
    shutil.rmtree(folder)
os._exit(0)
