"""How fast this machine's links are, and those between machines: all-reduces of the sizes of the script's own buckets, beside the
training, over the group of all ranks, of the ranks of a machine, of one rank of each machine, and between pairs of ranks."""

import contextlib
import datetime
import json
import os
import socket
import time

SIZES = (1 << 16, 1 << 20, 1 << 23)  # beside the buckets: a line needs points that are far apart
LARGEST = 1 << 26
REPEATS = 6
PAIRS = 28  # all of 8 ranks
PATIENCE_S = 60
ALL, MACHINE, NETWORK, PAIR = range(4)
GLOO, NCCL = range(2)
told = []  # bytes of the script's buckets


def sizes_of(buckets):
    kept = sorted({min(LARGEST, size) for size in buckets if size > 0})
    return sorted({*SIZES, *kept[-4:]})


def place():
    """The machine of this rank: by its name, and where several have one (containers), by the first rank on it."""
    rank, local = os.environ.get("RANK", ""), os.environ.get("LOCAL_RANK", "")
    first = int(rank) - int(local) if rank.isdigit() and local.isdigit() else ""
    return f"{socket.gethostname()}/{first}"


def meet(store, key, rank, world, patience_s=PATIENCE_S):
    """The ranks of every machine, which meet at this key. Rank 0 alone decides whether all are here: a rank that does not come must not leave the others in
    a collective, nor some of them with another answer."""
    store.set(f"{key}/{rank}", place())
    keys = [f"{key}/{r}" for r in range(world)]
    if rank == 0:
        try:
            store.wait(keys, datetime.timedelta(seconds=patience_s))
        except Exception:
            store.set(key, "[]")
            raise
        store.set(key, json.dumps([store.get(each).decode() for each in keys]))
    store.wait([key], datetime.timedelta(seconds=2 * patience_s))
    places = json.loads(store.get(key))
    if not places:
        raise RuntimeError("not every rank came to measure the links")
    machines = {}
    for r, name in enumerate(places):
        machines.setdefault(name, []).append(r)
    return list(machines.values())


def groups_of(machines):
    """(scope, ranks) of what is measured, in the same order on every rank; the least telling last: the time may be over."""
    world = sorted(rank for ranks in machines for rank in ranks)
    largest = max(len(ranks) for ranks in machines)
    if len(machines) == 1:
        rows = [(MACHINE, world)]
    elif largest == 1:
        rows = [(NETWORK, world)]
    else:
        rows = [(MACHINE, ranks) for ranks in machines if len(ranks) > 1]
        rows.append((NETWORK, [ranks[0] for ranks in machines]))
    if largest > 2:
        ranks = next(ranks for ranks in machines if len(ranks) == largest)
        rows += [(PAIR, [a, b]) for a in ranks for b in ranks if a < b][:PAIRS]
    return rows if any(len(ranks) == len(world) for _, ranks in rows) else [*rows, (ALL, world)]


def device_of(torch, models):
    """Where gradients are exchanged: on the model's own GPU, which need not be the current one."""
    dist = torch.distributed
    here = [p.device for model in models for p in model.parameters()][:1]
    if "nccl" not in str(getattr(dist, "get_backend_config", dist.get_backend)()) or (here and here[0].type != "cuda"):
        return torch.device("cpu")
    return here[0] if here else torch.device("cuda", torch.cuda.current_device())


def measure(torch, lanes, seconds, store, key, models):
    """Writes records. Every rank comes here at the same step, and decides from the same numbers. What fails on one rank ends it for
    all: the others must not wait in a collective for which it does not come, and which the training's own would answer."""
    dist = torch.distributed
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = groups_of(meet(store, key, rank, world))
    device = device_of(torch, models)
    until = time.monotonic() + max(2.0, seconds)
    failed = room = None
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        try:
            room = torch.zeros(max(sizes_of(told)) // 4, device=device)  # all of it at once: a GPU may be full
        except Exception as error:
            failed = error
        for scope, members in rows:
            # One after the other, so that none disturbs another and few communicators are there at a time.
            if not time_left(torch, until, device, failed):
                break
            try:
                measure_group(torch, lanes, room, scope, members)
            except Exception as error:
                failed = error
    if failed:
        lanes.note(f"links were not measured to the end: {failed!r}")


def measure_group(torch, lanes, room, scope, members):
    dist = torch.distributed
    group = dist.new_group(members) if len(members) < dist.get_world_size() else None
    if dist.get_rank() in members:
        for size in SIZES[1:] if scope == PAIR else sizes_of(told):
            run(torch, lanes, room[: size // 4], group, scope, members)
        if group is not None:
            with contextlib.suppress(Exception):
                dist.destroy_process_group(group)


def reducer(torch):
    """Without the record of a collective."""
    reduce = torch.distributed.all_reduce
    return getattr(reduce, "__wrapped__", reduce)


def time_left(torch, until, device, failed):
    """The same answer on all ranks; none where anything has failed on one."""
    over = torch.tensor([1.0 if failed or time.monotonic() > until else 0.0], device=device)
    reducer(torch)(over)
    return over.item() == 0


def run(torch, lanes, tensor, group, scope, members):
    reduce = reducer(torch)
    backend = NCCL if tensor.is_cuda else GLOO
    pair = members if scope == PAIR else (0xFFFF, 0xFFFF)
    extra = scope | backend << 8 | len(members) << 16 | (pair[0] & 0xFFFF) << 32 | (pair[1] & 0xFFFF) << 48
    for turn in range(REPEATS + 1):
        start = lanes.now()
        if tensor.is_cuda:
            begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            reduce(tensor, group=group)  # the current stream waits for it
            done.record()
            done.synchronize()
            end = start + int(begun.elapsed_time(done) * 1e6)
        else:
            reduce(tensor, group=group)
            end = lanes.now()
        if turn:  # connections are made in the first
            lanes.lane().write(lanes.LINK, start, end, 0, tensor.nbytes, extra)
