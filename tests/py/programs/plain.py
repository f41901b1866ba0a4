"""The loop everybody writes first, alone or under torchrun: epochs, a checkpoint in the middle of one, and a second
run from it. plain.py URL EPOCHS [STATE.json [STOP]]: goes on at the state where there is one, and ends after STOP steps."""

import json
import os
import sys

import leat
import torch
from seen import Net, fields, finish, loss_of, note
from torch.nn.parallel import DistributedDataParallel


def main():
    url, epochs = sys.argv[1], int(sys.argv[2])
    path = sys.argv[3] if len(sys.argv) > 3 else None
    stop = int(sys.argv[4]) if len(sys.argv) > 4 else -1
    loader = leat.Loader(url, global_batch_size=16, seed=3, fields=fields())
    net = Net()
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    if path and os.path.exists(path):
        with open(path) as file:
            loader.load_state_dict(json.load(file))
    for epoch in range(loader.epoch, epochs):
        loader.set_epoch(epoch)
        for x, y, i in loader:
            optimizer.zero_grad()
            loss_of(net, x, y).backward()
            optimizer.step()
            note("train", epoch, i)
            stop -= 1
            if stop == 0:
                if int(os.environ.get("RANK", "0")) == 0:
                    with open(path, "w") as file:
                        json.dump(loader.state_dict(), file)
                finish()
    finish()


if __name__ == "__main__":
    main()
