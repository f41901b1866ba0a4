"""mp.spawn, with the loader built before the process group. spawn.py WHERE METHOD URL EPOCHS PORT

WHERE the loader is built: in the "rank", or by the "parent", which gives it to the ranks; METHOD is spawn, fork or forkserver."""

import os
import sys

import leat
import torch
from seen import Net, fields, finish, loss_of, note
from torch.nn.parallel import DistributedDataParallel


def make(url):
    return leat.Loader(url, batch_size=8, fields=fields())


def work(rank, url, loader, epochs):
    loader = loader or make(url)
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
    where, method, url, epochs, port = sys.argv[1:6]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    loader = make(url) if where == "parent" else None
    torch.multiprocessing.start_processes(work, (url, loader, int(epochs)), nprocs=2, start_method=method)
