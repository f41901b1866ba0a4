"""FSDP on CPUs, a layer sharded over all ranks. torchrun fsdp.py URL EPOCHS"""

import sys

import leat
import torch
from seen import Net, fields, finish, loss_of, note
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    url, epochs = sys.argv[1], int(sys.argv[2])
    torch.distributed.init_process_group("gloo")
    loader = leat.Loader(url, global_batch_size=16, seed=3, fields=fields())
    net = fully_shard(Net(), mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(epochs):
        for x, y, i in loader:
            optimizer.zero_grad()
            loss_of(net, x, y).backward()
            optimizer.step()
            note("train", epoch, i)
    finish()


if __name__ == "__main__":
    main()
