"""What the training programs here share: outputs of a loader, a small network, and a record of every sample trained on.

A program is run as python PROGRAM URL …; each process appends to a file of its own in the folder $SEEN: one line of
JSON a batch, written when the batch is trained on, not when it is read.
"""

import json
import os

import leat
import torch

torch.set_num_threads(1)


def fields(label="y", size=16):
    """The network's input, its label, and the number by which a sample is known."""
    x = leat.image("png").resize((size, size)).normalize(0.5, 0.5)
    return {"x": x, label: leat.int("cls"), "i": leat.index()}


class Net(torch.nn.Module):
    def __init__(self, size=16):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(size * size * 3, 3))

    def forward(self, x):
        return self.layers(x)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)


def rank():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def note(phase, epoch, index, **more):
    line = {"phase": phase, "epoch": epoch, "rank": rank(), "index": index.tolist(), **more}
    with open(os.path.join(os.environ["SEEN"], f"{os.getpid()}.jsonl"), "a") as file:
        file.write(json.dumps(line) + "\n")


def finish():
    """Ends the process. Torch's own threads now and then abort one that ends when the machine is busy."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    os._exit(0)
