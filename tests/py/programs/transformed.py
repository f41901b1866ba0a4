"""A rank under torchrun whose loader has a transform; saves in the middle, reads on, and goes back to there. Prints what it saw."""

import json
import os
import sys

import leat
import torch
import torch.distributed as dist


def negative(sample):
    """Of the program itself: workers import it."""
    x, i = sample
    return -x.to(torch.int16), i, torch.rand(())


def main(url):
    dist.init_process_group("gloo")
    fields = {"x": leat.image("png").resize((8, 8)), "i": leat.index()}
    settings = {"fields": fields, "global_batch_size": 16, "transform": negative, "transform_workers": 1, "seed": 1}
    seen = []
    with leat.Loader(url, **settings) as loader:
        for n, (x, i, r) in enumerate(loader):
            assert x.dtype == torch.int16 and x.max() <= 0
            seen += [(int(a), float(b)) for a, b in zip(i, r)]
            if n == 2:
                state = loader.state_dict()
                break
        next(iter(loader))
        loader.load_state_dict(state)
        for _, i, r in loader:
            seen += [(int(a), float(b)) for a, b in zip(i, r)]
    with open(f"{sys.argv[2]}.{os.environ['RANK']}", "w") as out:
        json.dump(seen, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
