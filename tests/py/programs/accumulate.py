"""Gradient accumulation with batches kept in a list, more of them than the ring has slots, and a validation beside the training.
accumulate.py URL VAL_URL EPOCHS

The validation looks at two batches after every step, by early breaks, and at all of them after an epoch. Prints what the logger
"leat" said, a line each."""

import logging
import sys

import leat
import numpy
import torch
from seen import Net, fields, finish, loss_of, note

EACH = 3  # batches in a step
SLOTS = 2


class Printed(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)


def validate(net, val, phase, epoch, most):
    val.set_epoch(0)
    with torch.no_grad():
        for number, (x, y, i) in enumerate(val):
            loss_of(net, x, y)
            note(phase, epoch, i)
            if number + 1 == most:
                break


def main():
    url, val_url, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    logging.getLogger("leat").addHandler(Printed())
    sizes = {"batch_size": numpy.int64(16), "slots": numpy.uint8(SLOTS), "seed": numpy.int32(3)}
    train = leat.Loader(url, fields=fields(size=numpy.int64(80)), **sizes)
    val = leat.Loader(val_url, batch_size=numpy.int16(8), shuffle=numpy.bool_(False), fields=fields())
    net = Net(80)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    assert len(train) % EACH == 0
    for epoch in range(epochs):
        train.set_epoch(numpy.int64(epoch))
        batches = iter(train)
        for _ in range(len(train) // EACH):
            kept = [next(batches) for _ in range(EACH)]
            optimizer.zero_grad()
            for x, y, _ in kept:
                (loss_of(net, x, y) / EACH).backward()
            optimizer.step()
            for _, _, i in kept:
                note("train", epoch, i)
            validate(lambda x: net(x.repeat(1, 5, 5, 1)), val, "glance", epoch, 2)
        validate(lambda x: net(x.repeat(1, 5, 5, 1)), val, "val", epoch, -1)
    finish()


if __name__ == "__main__":
    main()
