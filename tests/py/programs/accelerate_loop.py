"""accelerate: the loader prepared as it is, and read one batch ahead as accelerate's own loaders do.

accelerate_loop.py URL STATE.json [STOP]: ends after STOP steps with the state of the batch just trained on, while the next
one has been read already; without STOP goes on from that state, to the end of epoch 1."""

import json
import sys

import leat
import torch
from accelerate import Accelerator
from accelerate.data_loader import DataLoaderShard
from seen import Net, fields, finish, loss_of, note


class Batches(torch.utils.data.IterableDataset):
    """What DataLoader asks for: something that yields batches."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)

    def __len__(self):
        return len(self.loader)


def main():
    url, path = sys.argv[1:3]
    stop = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    accelerator = Accelerator(cpu=True, device_placement=False)
    loader = leat.Loader(url, global_batch_size=16, seed=3, fields=fields(), as_dict=True)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    net, optimizer, prepared = accelerator.prepare(net, optimizer, loader)
    assert prepared is loader, "accelerate leaves what is no DataLoader alone"
    if stop < 0:
        with open(path) as file:
            loader.load_state_dict(json.load(file))
    ahead = torch.utils.data.DataLoader(Batches(loader), batch_size=None, collate_fn=lambda batch: batch)
    ahead = accelerator.prepare(ahead)
    assert isinstance(ahead, DataLoaderShard), "one that reads a batch ahead"
    for epoch in range(loader.epoch, 2):
        for batch in ahead:
            optimizer.zero_grad()
            accelerator.backward(loss_of(net, batch["x"], batch["y"]))
            optimizer.step()
            note("train", epoch, batch["i"])
            stop -= 1
            if stop == 0:
                with open(path, "w") as file:
                    json.dump(leat.state_of(batch), file)
                finish()
    finish()


if __name__ == "__main__":
    main()
