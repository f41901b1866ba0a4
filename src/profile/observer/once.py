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
COUNTED_MOST = 4  # steps of optimizers that one count may hold: a script may take no more batches
_counter = []
bucket_sizes = []


class Sharded:
    """Of FSDP: what it scattered and gathered in a step. DDP knows its buckets itself."""

    SCATTERS = ("reduce_scatter_single", "reduce_scatter_tensor")
    GATHERS = ("all_gather_single", "all_gather_into_tensor")

    def __init__(self):
        # Bytes of gradients in each reduce-scatter, of parameters in each all-gather.
        self.now = ([], [])
        self.last = ([], [])

    def see(self, name, output, given=None, **more):
        """Called as the collective is: a reduce-scatter's input and an all-gather's output are whole."""
        given = more.get("input", more.get("input_tensor", given))
        scatters = name in self.SCATTERS
        if not scatters or current.backward:
            self.now[not scatters].append(int((given if scatters else output).nbytes))

    def step(self):
        if self.now[0]:  # else gradients are being accumulated
            self.last = self.now
        self.now = ([], [])

    def tell(self):
        scattered, gathered = self.last
        if scattered:
            lanes.put(lanes.W_GRADIENT_BYTES, sum(scattered))
            _tell_sizes(scattered)
        if scattered and gathered and lanes.place.get(lanes.W_RANK, 1) == 1:
            lanes.note(
                f"gradients are scattered by FSDP; what-if does not count that it gathers parameters too, {sum(gathered)} "
                f"bytes in {len(gathered)} parts of a step"
            )


sharded = Sharded()


def look(batches):
    """At the first batches: what is only known once the training runs."""
    if _counter and (current.trained or batches == SETTLED - 1):
        count(False)
    sharded.step()
    if batches == SETTLED - 2:
        with contextlib.suppress(Exception):
            if exchanging:
                _tell_buckets(exchanging[-1]())
            else:
                sharded.tell()
    if batches == SETTLED - 1:
        peak()


def _tell_buckets(model):
    """DDP's own word on its buckets, which it makes again after the first pass, in the order in which gradients come."""
    said = model._get_ddp_logging_data()
    text = said.get("rebuiltbucket_sizes") or said.get("bucket_sizes") or ""
    _tell_sizes([int(word) for word in str(text).replace(",", " ").split()])


def _tell_sizes(sizes):
    at = now()
    for place, size in enumerate(sizes[:64]):
        lanes.lane().write(lanes.BUCKET, at, at, place, size)
    if sizes:
        lanes.put(lanes.W_BUCKETS, len(sizes))
        bucket_sizes[:] = sizes[:64]


def count(begin):
    """Counts the FLOPs of one step, by what torch calls below autograd."""
    torch = sys.modules["torch"]
    if begin:
        if current.compiled or not torch.is_grad_enabled():
            return
        with contextlib.suppress(Exception):  # another release
            counter = _make_counter(torch)
            counter.__enter__()
            _counter[:] = [counter]
        return
    if _counter and sys.modules["torch.utils._python_dispatch"]._get_current_dispatch_mode() is _counter[0]:
        counter = _counter.pop()
        counter.__exit__(None, None, None)
        at = now()
        if counter.flops and current.trained:
            lanes.lane().write(lanes.FLOPS, at, at, 0, int(counter.flops), 1 if counter.missed else 0)


def stepped():
    """After a step of an optimizer while a count goes on. Counting makes every operation slower: it must end, also of a script
    that takes a few batches and then trains on them for ever."""
    counter = _counter[0]
    counter.steps += 1
    if counter.steps == COUNTED_MOST:
        counter.flops = 0  # of more than a step
        count(False)


def _make_counter(torch):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.flops = self.steps = 0
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
