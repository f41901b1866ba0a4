"""What `leat profile` puts in front of a training script: follows loaders, copies, the backward pass, collectives and the
optimizer, and writes when each began and ended into shared memory.

Stands alone: it is built into the command, which gives it to programs whose Python has no Leat. It needs nothing but the
standard library, imports nothing that the script does not import, and changes no number that the script computes. docs/profile.md
has the layout of a lane, which src/profile/lane.h reads.
"""

import atexit
import contextlib
import functools
import importlib.abc
import importlib.util
import os
import sys
import threading
import weakref
from collections import deque


def _part(name):
    """Another file of the observer, from the folder that this one is in."""
    spec = importlib.util.spec_from_file_location(
        f"_leat_{name}", os.path.join(os.path.dirname(__file__), f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


lanes = _part("lane")
fetch, once = _part("fetch"), _part("once")
epochs, weigh = _part("epochs").epochs, sys.modules["_leat_epochs"].weigh
current = lanes.current
WAIT, COPY, BACKWARD, COMM, OPTIM, FETCH = lanes.WAIT, lanes.COPY, lanes.BACKWARD, lanes.COMM, lanes.OPTIM, lanes.FETCH
EXHAUSTED, DEVICE, ACCOUNTED, OBSERVED = lanes.EXHAUSTED, lanes.DEVICE, lanes.ACCOUNTED, lanes.OBSERVED
OPENING, EMPTY, NO_GRAD, WARMUP = lanes.OPENING, lanes.EMPTY, lanes.NO_GRAD, lanes.WARMUP
now = lanes.now
_PENDING_MAX = 4096
_broken = []  # hooks that could not be put in place
_parents = []  # what only the process that this one was forked from may end


def _forget():
    """In a forked child. Events and tensors on a GPU must not end here: that is a call of CUDA, which would abort the child."""
    _parents.append((current.device, *_replayer))
    for replayer in _replayer:
        replayer.park.drop()
    lanes.forget()
    current.clear()
    _replayer.clear()
    fetch.forget()


# --- the GPU's own clock ------------------------------------------------------------------------------------------------


class Device:
    """Spans of the GPU's time line, by events in the stream that the program computes in. Nothing ever waits for an event: it is
    asked whether it has happened, at the next batch, and its time is read after that."""

    def __init__(self, torch):
        self.torch = torch
        self.pending = deque()
        self.free = {}  # events by the device that they were made for: CUDA takes them on no other
        self.anchors = {}  # by device: the last event whose time is known, and the time
        self.home = None  # the stream that batches are asked for in

    def mark(self):
        """(device, event) in the current stream."""
        cuda = self.torch.cuda
        if cuda.is_current_stream_capturing():
            return None
        index = cuda.current_device()
        free = self.free.get(index)
        event = free.pop() if free else cuda.Event(enable_timing=True)
        event.record()
        return index, event

    def at_home(self):
        return self.home is None or self.torch.cuda.current_stream() == self.home

    def drop(self, mark):
        if mark is not None:
            self.free.setdefault(mark[0], []).append(mark[1])

    def span(self, first, last, *record):
        if first is None or last is None or first[0] != last[0]:  # a clock of each device
            self.drop(first)
            self.drop(last)
            return
        if len(self.pending) >= _PENDING_MAX:
            lanes.lane().words[lanes.W_DROPPED] += 1
            return
        self.pending.append((first, last, record))

    def time_of(self, mark):
        anchor, at = self.anchors.get(mark[0], (None, 0))
        at = now() if anchor is None else at + round(anchor.elapsed_time(mark[1]) * 1e6)
        if anchor is not None:
            self.drop((mark[0], anchor))
        self.anchors[mark[0]] = mark[1], at
        return at

    def collect(self):
        while self.pending and self.pending[0][1][1].query():
            first, last, (kind, loader, value, extra, flags, mode) = self.pending.popleft()
            start = self.time_of(first)
            end = self.time_of(last)
            lanes.lane().write(kind, start, max(start, end), loader, value, extra, flags | DEVICE, mode)


_cuda = []  # the module torch, where it was built for GPUs


def _device():
    """The GPU that the script itself has begun to use, or None."""
    if current.device is None and _cuda and _cuda[0].cuda.is_initialized():
        torch = _cuda[0]
        current.device = Device(torch)
        name = torch.cuda.get_device_name().encode()[:127]
        for at in range(0, 128, 8):
            lanes.put(lanes.W_NAME + at // 8, int.from_bytes(name[at : at + 8].ljust(8, b"\0"), "little"))
    return current.device


class Span:
    """One stretch of the training thread's time, and of the GPU's where there is one."""

    __slots__ = ("device", "first", "flags", "kind", "loader", "mode", "start")

    def __init__(self, kind, loader=0, flags=0):
        self.kind, self.loader, self.flags, self.mode = kind, loader, flags, current.mode
        device = self.device = current.device
        self.first = None if device is None else device.mark()
        self.start = now()

    def keep_to_the_stream(self):
        """In a stream beside the one that the script computes in, the GPU's time is no time of the step: FSDP exchanges there, behind
        the passes."""
        if self.device is not None and not self.device.at_home():
            self.device.drop(self.first)
            self.device = None

    def end(self, value=0, extra=0, flags=0):
        end = now()
        flags |= self.flags
        lanes.lane().put(self.start, end, self.kind | self.mode << 8 | flags << 16 | self.loader << 32, value, extra)
        if self.device is not None:
            last = self.device.mark()
            self.device.span(self.first, last, self.kind, self.loader, value, extra, flags, self.mode)


# --- loaders ------------------------------------------------------------------------------------------------------------


_numbers, _next_number = {}, [1]


def number_of(loader):
    """A small number for a loader, from 1 on."""
    key = id(loader)
    if key not in _numbers:
        _numbers[key] = _next_number[0]
        _next_number[0] += 1
        with contextlib.suppress(TypeError):  # what has no weak references stays
            weakref.finalize(loader, _numbers.pop, key, None)
    return _numbers[key]


_grad = []  # whether gradients are made: torch's function


def without_gradients():
    return 0 if not _grad or _grad[0]() else NO_GRAD


def opening(make, loader):
    """Calls make() as the beginning of an epoch: starting workers is waiting, too."""
    if current.depth:
        return make()
    current.depth = 1
    span = Span(WAIT, loader, OPENING | without_gradients())
    try:
        return make()
    finally:
        current.depth = 0
        span.end()


def wait(step, loader, accounts=None, ready=False):
    """Calls step() as the wait for a batch; `ready`: one was there before it was asked for."""
    if current.depth:
        return step()
    current.depth = 1
    if current.trained:
        epochs.train()
    if _cuda:
        device = current.device or _device()
        if device:
            device.collect()
            if _world:
                device.home = device.torch.cuda.current_stream()
    if current.batches < once.SETTLED:
        once.look(current.batches)
    span = Span(WAIT, loader, (0 if ready else EMPTY) | without_gradients())
    try:
        batch = step()
    except BaseException as error:
        span.end(flags=EXHAUSTED if isinstance(error, StopIteration) else 0)
        if _replayer:
            _replayer[0].last = None  # a loader whose workers stay gives its next epoch from the same iterator
        raise
    finally:
        current.depth = 0
    if accounts:
        accounts(loader, span.start)
    samples, size = epochs.weight(loader, batch)
    span.end(samples, size)
    epochs.give(loader, not span.flags & NO_GRAD)
    current.trained = current.stepped = False
    current.batches += 1
    if current.batches == once.COUNTED:
        once.count(True)
    return batch


class Watched:
    """An iterator whose every next() is a wait."""

    def __init__(self, iterator, loader, accounts=None):
        self.iterator, self.loader, self.accounts = iterator, loader, accounts

    def __iter__(self):
        return self

    def __next__(self):
        return wait(self.iterator.__next__, self.loader, self.accounts)

    def __getattr__(self, name):
        return getattr(self.iterator, name)


class Replayed(Watched):
    """The same of a torch DataLoader that somebody has put his own iterator around; its batches may be replayed."""

    def __init__(self, iterator, loader, again, place):
        """`again`: whether each rank can read its samples once more; `place` does with a batch what the iterator does."""
        super().__init__(iterator, number_of(loader))
        self.inner = loader
        self.leat_number = self.loader
        self.leat_loader = loader if again else None
        self.leat_place = place
        self._num_workers = loader.num_workers

    @property
    def leat_source(self):
        """The loader's own iterator, once it is made."""
        made = getattr(self.inner, "leat_iterator", None)
        return made and made()

    @property
    def leat_indices(self):
        return getattr(self.leat_source, "leat_indices", ())

    def __next__(self):
        if current.depth:
            return self.iterator.__next__()
        source = self.leat_source
        return batch_of(self, self.iterator.__next__, self.loader, source is not None and is_ready(source))


def is_ready(iterator):
    """Whether the next batch is there already: with workers, that they are ahead of the training."""
    told = iterator.__dict__
    if "_data_queue" not in told:
        return False
    try:
        return len(told["_task_info"].get(told["_rcvd_idx"], ())) == 2 or told["_data_queue"].qsize() > 0
    except (KeyError, NotImplementedError):  # another release of torch
        return False


def batch_of(iterator, step, number, ready):
    """The next batch of a loader, its own or one of a differential block."""
    if _replayer:
        step = _replayer[0].choose(iterator, step, ready)
    try:
        batch = wait(step, number, ready=ready)
    except StopIteration:
        epochs.end(number)
        raise
    epochs.count(number)
    return batch


def begin_epoch(loader, make):
    """make() begins to give out the batches of this loader."""
    if current.trained:
        epochs.train()
    number = number_of(loader)
    epochs.begin(number, loader)
    return opening(make, number)


def _patch_dataloader(torch):
    data = torch.utils.data
    base = data.dataloader._BaseDataLoaderIter
    plain_next, plain_init = base.__next__, data.dataloader._MultiProcessingDataLoaderIter.__init__

    def following(self):
        number = fetch.serial_loader[0] = self.__dict__.get("leat_number", 0)
        if current.depth:
            return plain_next(self)
        return batch_of(self, functools.partial(plain_next, self), number, is_ready(self))

    def starting(self, loader):
        # Workers learn from the environment whose they are, however they are started.
        mode = getattr(loader, "leat_mode", OBSERVED)
        os.environ["LEAT_PROFILE_LOADER"] = f"{number_of(loader)}:{mode}:{os.getpid()}"
        try:
            plain_init(self, loader)
        finally:
            del os.environ["LEAT_PROFILE_LOADER"]

    plain_get, plain_iter = data.DataLoader._get_iterator, data.DataLoader.__iter__

    def iterator(self):
        made = plain_get(self)
        made.leat_number = number_of(self)
        if _replayer:
            made.leat_loader = self  # to read samples again
            self.leat_iterator = weakref.ref(made)
        return made

    def iterate(self):
        if current.depth or hasattr(self, "leat_mode"):
            return plain_iter(self)
        made = begin_epoch(self, functools.partial(plain_iter, self))
        made.leat_fresh = True  # also where workers persist, and with them the iterator
        return made

    base.__next__ = base.next = following
    data.dataloader._MultiProcessingDataLoaderIter.__init__ = starting
    data.DataLoader._get_iterator, data.DataLoader.__iter__ = iterator, iterate
    fetch.patch_fetch(data._utils.fetch._MapDatasetFetcher)
    fetch.patch_fetch(data._utils.fetch._IterableDatasetFetcher)


_replayer = []  # of differential runs, where they are asked for


# --- the step -----------------------------------------------------------------------------------------------------------


def _patch_backward(torch):
    plain = torch.autograd.backward

    def backward(tensors, *args, **kwargs):
        current.trained = current.backward = True
        if not _world and current.device is None:
            start = now()
            try:
                return plain(tensors, *args, **kwargs)
            finally:
                current.backward = False
                lanes.lane().put(start, now(), BACKWARD | current.mode << 8, 0, 0)
        span = Span(BACKWARD)
        comm, handle = [], None
        if _world and not torch.compiler.is_compiling():
            root = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
            if root is not None and root.requires_grad:
                # Runs first in the backward pass; what it queues runs when all gradients are there, and before DDP waits for
                # those of the other ranks.
                def begun(grad):
                    root_engine = torch.autograd.Variable._execution_engine
                    root_engine.queue_callback(lambda: comm.append(Span(COMM)))

                handle = root.register_hook(begun)
        try:
            return plain(tensors, *args, **kwargs)
        finally:
            current.backward = False
            if handle is not None:
                handle.remove()
            if comm:
                comm[-1].end()
            span.end()

    torch.autograd.backward = backward


def _patch_optimizer(torch):
    spans, seen = [], [0]  # open ones: a step may call another's; batches at the last step

    def before(optimizer, args, kwargs):
        if _cuda:
            device = current.device or _device()
            if device and seen[0] == current.batches:
                device.collect()  # nobody takes batches, who would do it
            seen[0] = current.batches
        current.stepped = True
        current.steps += 1
        spans.append((optimizer, Span(OPTIM)))

    def after(optimizer, args, kwargs):
        while spans:  # what is above was left by an exception
            mine, span = spans.pop()
            if mine is optimizer:
                span.end()
                break
        if once._counter:
            once.stepped()

    module = sys.modules["torch.optim.optimizer"]  # torch.optim hides it
    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def _patch_copies(torch):
    is_compiling = torch.compiler.is_compiling

    def follow(name):
        plain = getattr(torch.Tensor, name)

        def copy(self, *args, **kwargs):
            if current.depth or is_compiling():
                return plain(self, *args, **kwargs)
            device = current.device
            first = device.mark() if device is not None and self.device.type == "cpu" else None
            start = now()
            made = plain(self, *args, **kwargs)
            if made is not self and getattr(made, "device", self.device) != self.device:
                end, size = now(), self.nbytes
                lanes.lane().write(COPY, start, end, 0, size, 0, 0, current.mode)
                if first is not None:
                    device.span(first, device.mark(), COPY, 0, size, 0, 0, current.mode)
            elif first is not None:
                device.drop(first)
            return made

        copy.__name__, copy.__qualname__, copy.__doc__ = name, f"Tensor.{name}", plain.__doc__
        setattr(torch.Tensor, name, copy)

    for name in ("to", "cuda"):
        follow(name)


_COLLECTIVES = [
    *("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "all_gather", "all_gather_object"),
    *once.Sharded.SCATTERS,
    *once.Sharded.GATHERS,
    *("gather", "gather_object"),
    *("broadcast", "broadcast_object_list", "scatter", "scatter_object_list", "all_to_all", "all_to_all_single"),
    *("barrier", "monitored_barrier", "send", "recv"),
]
_world = []  # how many ranks there are, if more than one


def _patch_distributed(torch):
    dist = torch.distributed
    if not dist.is_available():
        return
    inner = dist.distributed_c10d
    busy = threading.local()

    def follow(plain, own=True):
        name = getattr(plain, "__name__", "collective")  # a hook may be any callable
        sharding = name in (*once.Sharded.SCATTERS, *once.Sharded.GATHERS)

        def collective(*args, **kwargs):
            if current.depth or getattr(busy, "on", False) or torch.compiler.is_compiling():
                return plain(*args, **kwargs)
            busy.on = True
            current.collectives += own and not current.backward and current.batches > once.SETTLED
            if sharding and current.batches < once.SETTLED:
                with contextlib.suppress(Exception):  # called as nobody should
                    once.sharded.see(name, *args, **kwargs)
            span = Span(COMM)
            span.keep_to_the_stream()
            try:
                return plain(*args, **kwargs)
            finally:
                busy.on = False
                span.end(weigh([a for a in args if isinstance(a, torch.Tensor)])[1])

        collective.__name__, collective.__doc__, collective.__wrapped__ = name, plain.__doc__, plain
        return collective

    for name in _COLLECTIVES:
        plain = getattr(inner, name, None)
        if plain is None:
            continue
        made = follow(plain)
        setattr(inner, name, made)
        if getattr(dist, name, None) is plain:
            setattr(dist, name, made)
    # DDP sends buffers with it before the forward pass: who comes early waits there.
    if hasattr(dist, "_broadcast_coalesced"):
        dist._broadcast_coalesced = follow(dist._broadcast_coalesced, own=False)
    plain_init = inner.init_process_group

    def init_process_group(*args, **kwargs):
        done = plain_init(*args, **kwargs)
        lanes.put(lanes.W_RANK, dist.get_rank() + 1)
        lanes.put(lanes.W_WORLD, dist.get_world_size())
        _world[:] = [dist.get_world_size()] if dist.get_world_size() > 1 else []
        try:
            _part("mirror").start(torch)
        except Exception as error:  # the report is of this machine then
            lanes.note(f"other machines cannot be followed from here: {error!r}")
        return done

    init_process_group.__doc__, init_process_group.__wrapped__ = plain_init.__doc__, plain_init
    inner.init_process_group = dist.init_process_group = init_process_group
    _patch_ddp(torch.nn.parallel.DistributedDataParallel, follow)


def _patch_ddp(kind, follow):
    plain, plain_register = kind.__init__, kind.register_comm_hook

    @functools.wraps(plain_register)
    def register(self, state, hook):
        # It runs in the backward pass, which waits for it: all of it is communication, also what it does when gradients are back at
        # once. Its signature is looked at.
        return plain_register(self, state, functools.wraps(hook)(follow(hook, own=False)))

    def init(self, module, *args, **kwargs):
        plain(self, module, *args, **kwargs)
        size = sum(p.numel() * p.element_size() for p in self.module.parameters() if p.requires_grad)
        lanes.put(lanes.W_GRADIENT_BYTES, size)
        bucket = (kwargs.get("bucket_cap_mb") or 25) * (1 << 20)
        lanes.put(lanes.W_BUCKETS, int(-(-size // bucket)))
        once.exchanging.append(weakref.ref(self))

    init.__wrapped__ = plain
    kind.__init__, kind.register_comm_hook = init, register


# --- putting them in place ----------------------------------------------------------------------------------------------


def _follow_torch(torch):
    _grad.append(torch.is_grad_enabled)
    if torch.backends.cuda.is_built():
        _cuda.append(torch)
    for patch in (
        *(_patch_dataloader, _patch_backward, _patch_optimizer, _patch_copies, _patch_distributed),
        *(once.patch_checkpoints, once.patch_compile),
    ):
        try:
            patch(torch)
        except Exception as error:  # another release of torch: the rest is still worth knowing
            _broken.append(f"{patch.__name__.lstrip('_')[6:]}: {error!r}")
    if _broken:
        lanes.note(f"this release of torch ({torch.__version__}) cannot be followed here: {'; '.join(_broken)}")
    if os.environ.get("LEAT_PROFILE_RUNS"):
        fetch.follow_files()
        _part("replay")
    if os.environ.get("LEAT_PROFILE_RUNS") and not os.environ.get("LEAT_PROFILE_LOADER"):
        made = sys.modules["_leat_replay"].install(torch, current, lanes.folder, lanes.note)
        if made:
            _replayer.append(made)


frameworks = _part("frameworks")
frameworks.observe = sys.modules[__name__]
_FOLLOWED = {
    "torch": _follow_torch,
    "leat.loader": frameworks.follow_leat,
    "accelerate.data_loader": frameworks.follow_accelerate,
    "transformers.trainer": lambda module: frameworks.follow_counting(module.Trainer, "train", "transformers.Trainer"),
    "lightning.pytorch.trainer.trainer": lambda module: frameworks.follow_counting(module.Trainer, "fit", "Lightning"),
    "pytorch_lightning.trainer.trainer": lambda module: frameworks.follow_counting(module.Trainer, "fit", "Lightning"),
    "multiprocessing.process": frameworks.follow_processes,
    "socket": fetch.follow_sockets,
    "ssl": fetch.follow_tls,
}


def _follow(name, module):
    """What is not as expected in a release of a package must not stop the script."""
    try:
        _FOLLOWED[name](module)
    except Exception as error:
        lanes.note(f"this release of {name} cannot be followed: {error!r}")


class _Finder(importlib.abc.MetaPathFinder):
    """Calls the hooks of a module right after its import."""

    def find_spec(self, name, path, target=None):
        if name not in _FOLLOWED or name in _found:
            return None
        _found.add(name)  # found by the others now
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            _found.discard(name)
            return None
        plain = spec.loader.exec_module

        def exec_module(module):
            plain(module)
            _follow(name, module)

        spec.loader.exec_module = exec_module
        return spec


_found = set()


def _at_exit():
    # Set by an exception that nobody caught, whichever hook has printed it.
    lanes.end(lanes.RAISED if getattr(sys, "last_value", None) is not None else lanes.ENDED)


def start(folder):
    """Begins to follow this process."""
    lanes.folder = folder
    for variable, word, plus in (
        ("RANK", lanes.W_RANK, 1),
        ("WORLD_SIZE", lanes.W_WORLD, 0),
        ("LOCAL_RANK", lanes.W_LOCAL, 1),
        ("LOCAL_WORLD_SIZE", lanes.W_LOCAL_WORLD, 0),
    ):
        text = os.environ.get(variable, "")
        if text.isdigit():
            lanes.place[word] = int(text) + plus
    fetch.who()
    os.register_at_fork(after_in_child=_forget)
    atexit.register(_at_exit)
    atexit.register(once.peak)
    plain_exit = os._exit

    def leave(status):
        lanes.end(lanes.ENDED)
        plain_exit(status)

    os._exit = leave
    for name in _FOLLOWED:
        if name in sys.modules:
            _found.add(name)
            _follow(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder())
