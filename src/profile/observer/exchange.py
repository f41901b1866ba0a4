"""How fast this machine's links are, and those between machines: all-reduces of the sizes of the script's own buckets, beside the
training, over the group of all ranks, of the ranks of a machine, of one rank of each machine, and between pairs of ranks."""

import contextlib
import os
import time

SIZES = (1 << 16, 1 << 20, 1 << 23)  # beside the buckets: a line needs points that are far apart
LARGEST = 1 << 26
REPEATS = 6
PAIRS = 28  # all of 8 ranks
ALL, MACHINE, NETWORK, PAIR = range(4)
GLOO, NCCL = range(2)


def sizes_of(buckets):
    kept = sorted({min(LARGEST, size) for size in buckets if size > 0})
    return sorted({*SIZES, *kept[-4:]})


def measure(torch, lanes, seconds):
    """Writes records. Every rank comes here at the same step, and decides from the same numbers."""
    dist = torch.distributed
    backend = NCCL if dist.get_backend() == "nccl" else GLOO
    device = torch.device("cuda", torch.cuda.current_device()) if backend == NCCL else torch.device("cpu")
    rank, world = dist.get_rank(), dist.get_world_size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE") or world)
    everybody = MACHINE if world == local else NETWORK if local == 1 else ALL
    groups = [(everybody, None, list(range(world)))]
    if 1 < local < world:
        for first in range(0, world, local):
            groups.append((MACHINE, dist.new_group(range(first, first + local)), list(range(first, first + local))))
    if 1 < local < world:
        heads = list(range(0, world, local))
        groups.append((NETWORK, dist.new_group(heads), heads))
    if local > 2:
        pairs = [(a, b) for a in range(local) for b in range(a + 1, local)][:PAIRS]
        groups.extend((PAIR, dist.new_group([a, b]), [a, b]) for a, b in pairs)
    buckets = [size for size in told if size]
    until = time.monotonic() + max(2.0, seconds)
    groups.sort(key=lambda row: row[0] == ALL)  # the least telling last: the time may be over
    for scope, group, members in groups:
        sizes = sizes_of(buckets) if scope != PAIR else SIZES[1:]
        for size in sizes:
            tensor = torch.zeros(size // 4, device=device)
            if rank in members and time_left(torch, until, group, device):
                run(torch, lanes, tensor, group, scope, members, backend)
    for _, group, members in groups:
        if group is not None and rank in members:
            with contextlib.suppress(Exception):
                dist.destroy_process_group(group)


told = []  # bytes of the script's buckets


def time_left(torch, until, group, device):
    """The same answer on all members."""
    over = torch.tensor([1.0 if time.monotonic() > until else 0.0], device=device)
    torch.distributed.all_reduce.__wrapped__(over, group=group)
    return over.item() == 0


def run(torch, lanes, tensor, group, scope, members, backend):
    reduce = torch.distributed.all_reduce
    reduce = getattr(reduce, "__wrapped__", reduce)  # without the record of a collective
    pair = members if scope == PAIR else (0xFFFF, 0xFFFF)
    extra = scope | backend << 8 | len(members) << 16 | (pair[0] & 0xFFFF) << 32 | (pair[1] & 0xFFFF) << 48
    for turn in range(REPEATS + 1):
        if tensor.is_cuda:
            torch.cuda.synchronize()
        start = lanes.now()
        reduce(tensor, group=group)
        if tensor.is_cuda:
            torch.cuda.synchronize()
        if turn:  # connections are made in the first
            lanes.lane().write(lanes.LINK, start, lanes.now(), 0, tensor.nbytes, extra)
