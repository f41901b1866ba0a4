"""mp.spawn, with the loader built before the process group. spawn.py URL EPOCHS PORT"""

import os
import sys

import leat
import torch
from seen import Net, fields, finish, loss_of, note
from torch.nn.parallel import DistributedDataParallel


def work(rank, url, epochs):
    loader = leat.Loader(url, batch_size=8, fields=fields())
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    net = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(epochs):
        for x, y, i in loader:
            optimizer.zero_grad()
            loss_of(net, x, y).backward()
            optimizer.step()
            note("train", epoch, i, steps=len(loader))
    finish()


if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[3])
    torch.multiprocessing.spawn(work, (sys.argv[1], int(sys.argv[2])), nprocs=2)
