"""What is looked at once, or seldom: FLOPs of a step, buckets of gradients, memory of the GPU, checkpoints."""

import contextlib
import os
import sys

lanes = sys.modules["_leat_lane"]
current, now = lanes.current, lanes.now
SAVE, LOAD = lanes.SAVE, lanes.LOAD

COUNTED = 2  # the batch whose step is counted in FLOPs: one of the warm-up, which is not measured
SETTLED = 8  # batches after which there is nothing more to look at
exchanging = []  # models whose gradients are exchanged
_counter = []
bucket_sizes = []


def look(batches):
    """At the first batches: what is only known once the training runs."""
    if _counter and (current.trained or batches == SETTLED - 1):
        count(False)
    if batches == SETTLED - 2:
        for reference in exchanging[-1:]:
            with contextlib.suppress(Exception):
                _tell_buckets(reference())
    if batches == SETTLED - 1:
        peak()


def _tell_buckets(model):
    """DDP's own word on its buckets, which it makes again after the first pass, in the order in which gradients come."""
    said = model._get_ddp_logging_data()
    text = said.get("rebuiltbucket_sizes") or said.get("bucket_sizes") or ""
    sizes = [int(word) for word in str(text).replace(",", " ").split()][:64]
    at = now()
    for place, size in enumerate(sizes):
        lanes.lane().write(lanes.BUCKET, at, at, place, size)
    if sizes:
        lanes.put(lanes.W_BUCKETS, len(sizes))
        bucket_sizes[:] = sizes


def count(begin):
    """Counts the FLOPs of one step, by what torch calls below autograd."""
    torch = sys.modules["torch"]
    if begin:
        if current.compiled or not torch.is_grad_enabled():
            return
        with contextlib.suppress(Exception):  # another release
            counter = _make_counter(torch)
            counter.__enter__()
            _counter.append(counter)
        return
    if _counter and sys.modules["torch.utils._python_dispatch"]._get_current_dispatch_mode() is _counter[0]:
        counter = _counter.pop()
        counter.__exit__(None, None, None)
        at = now()
        if counter.flops and current.trained:
            lanes.lane().write(lanes.FLOPS, at, at, 0, int(counter.flops), 1 if counter.missed else 0)


def _make_counter(torch):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.flops = 0
            self.missed = False

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            packet = getattr(function, "_overloadpacket", None)
            count = flop_registry.get(packet)
            try:
                if count is not None:
                    self.flops += int(count(*args, **(kwargs or {}), out_val=made))
                elif "attention" in str(packet) or "triton" in str(packet):
                    self.missed = True
            except Exception:
                self.missed = True
            return made

    return Counter()


def patch_checkpoints(torch):
    """Writing and reading of checkpoints."""

    def follow(name, kind):
        plain = getattr(torch, name)

        def call(*args, **kwargs):
            start = now()
            done = plain(*args, **kwargs)
            end, size = now(), 0
            file = kwargs.get("f", args[1] if kind == SAVE and len(args) > 1 else args[0] if args else None)
            with contextlib.suppress(Exception):
                size = os.path.getsize(file if isinstance(file, (str, os.PathLike)) else file.name)
            lanes.lane().write(kind, start, end, 0, size)
            return done

        call.__name__, call.__doc__, call.__wrapped__ = name, plain.__doc__, plain
        setattr(torch, name, call)

    follow("save", SAVE)
    follow("load", LOAD)


def patch_compile(torch):
    plain = torch.compile

    def compile(*args, **kwargs):
        current.compiled = True
        return plain(*args, **kwargs)

    compile.__doc__, compile.__wrapped__ = plain.__doc__, plain
    torch.compile = compile


def peak():
    """The most memory that tensors took on the GPU so far."""
    if current.device is not None:
        with contextlib.suppress(Exception):
            lanes.put(lanes.W_PEAK, int(current.device.torch.cuda.max_memory_allocated()))
