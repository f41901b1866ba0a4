"""Trains a small network with DistributedDataParallel, fed by Leat or by tensors that were read before, in the same
order. Run by torchrun; rank 0 prints the losses as JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def batches_from_leat(url, global_batch):
    import leat

    fields = {"x": leat.image("png").resize((16, 16)), "y": leat.int("cls"), "i": leat.index()}
    loader = leat.Loader(url, global_batch_size=global_batch, seed=5, fields=fields)  # rank and world from torch
    for _ in range(2):
        for x, y, _ in loader:
            yield x, y
    loader.close()


def batches_from_file(path, rank):
    plan = torch.load(path)
    for numbers in plan["steps"][rank]:
        yield plan["x"][numbers], plan["y"][numbers]


def main():
    source, argument, global_batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = DistributedDataParallel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * 16 * 3, 3)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    if source == "leat":
        batches = batches_from_leat(argument, global_batch)
    else:
        batches = batches_from_file(argument, dist.get_rank())
    losses = []
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(net(x.float() / 255), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item())
    if dist.get_rank() == 0:
        print("losses", json.dumps(losses), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # Torch's own threads now and then abort a process that ends ("terminate called without an active exception"), fed
    # by plain tensors as well, when the machine is busy. What was to be shown is shown.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
