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
import time
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
WAIT, COPY, BACKWARD, COMM, OPTIM, FETCH = lanes.WAIT, lanes.COPY, lanes.BACKWARD, lanes.COMM, lanes.OPTIM, lanes.FETCH
READ, SAVE, LOAD = lanes.READ, lanes.SAVE, lanes.LOAD
EXHAUSTED, DEVICE, ACCOUNTED, OBSERVED = lanes.EXHAUSTED, lanes.DEVICE, lanes.ACCOUNTED, lanes.OBSERVED
now = lanes.now
_PENDING_MAX = 4096
_broken = []  # hooks that could not be put in place


def _forget():
    lanes.forget()
    current.clear()
    _replayer.clear()
    _reading.clear()
    if "fd" in _files:
        os.close(_files["fd"])
    _files.clear()
    _who()


class Current:
    """Where the training of this process stands: what the hooks tell each other. One thread trains."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.mode = OBSERVED
        self.depth = 0  # of calls that are waits themselves: an iterator within an iterator counts once
        self.trained = False  # a backward pass since the last batch
        self.accounts = None  # of the fetch that this thread is in
        self.device = None
        self.batches = 0
        self.collectives = 0  # that the script itself called
        self.compiled = False  # by torch.compile


current = Current()


# --- the GPU's own clock ------------------------------------------------------------------------------------------------


class Device:
    """Spans of the GPU's time line, by events in the stream that the program computes in. Nothing ever waits for an event: it is
    asked whether it has happened, at the next batch, and its time is read after that."""

    def __init__(self, torch):
        self.torch = torch
        self.pending = deque()
        self.free = []
        self.anchor = None  # the last event whose time is known
        self.at = 0

    def mark(self):
        if self.torch.cuda.is_current_stream_capturing():
            return None
        event = self.free.pop() if self.free else self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def span(self, first, last, *record):
        if first is None or last is None:
            return
        if len(self.pending) >= _PENDING_MAX:
            lanes.lane().words[lanes.W_DROPPED] += 1
            return
        self.pending.append((first, last, record))

    def time_of(self, event):
        if self.anchor is None:
            self.at = now()
        else:
            self.at += round(self.anchor.elapsed_time(event) * 1e6)
        if self.anchor is not None:
            self.free.append(self.anchor)
        self.anchor = event
        return self.at

    def collect(self):
        while self.pending and self.pending[0][1].query():
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


def _peak():
    """The most memory that tensors took on the GPU so far."""
    if current.device is not None:
        with contextlib.suppress(Exception):
            lanes.put(lanes.W_PEAK, int(current.device.torch.cuda.max_memory_allocated()))


class Span:
    """One stretch of the training thread's time, and of the GPU's where there is one."""

    __slots__ = ("device", "first", "flags", "kind", "loader", "mode", "start")

    def __init__(self, kind, loader=0, flags=0):
        self.kind, self.loader, self.flags, self.mode = kind, loader, flags, current.mode
        device = self.device = current.device
        self.first = None if device is None else device.mark()
        self.start = now()

    def end(self, value=0, extra=0, flags=0):
        end = now()
        flags |= self.flags
        lanes.lane().write(self.kind, self.start, end, self.loader, value, extra, flags, self.mode)
        if self.device is not None:
            last = self.device.mark()
            self.device.span(self.first, last, self.kind, self.loader, value, extra, flags, self.mode)


# --- loaders ------------------------------------------------------------------------------------------------------------


def weigh(batch, depth=3):
    """(samples, bytes) of a batch, as far as its tensors and arrays tell."""
    if hasattr(batch, "nbytes") and hasattr(batch, "shape"):
        return (int(batch.shape[0]) if len(batch.shape) else 1), int(batch.nbytes)
    if depth and isinstance(batch, dict):
        batch = list(batch.values())
    if depth and isinstance(batch, (list, tuple)):
        parts = [weigh(part, depth - 1) for part in batch[:16]]
        return max((p[0] for p in parts), default=0), sum(p[1] for p in parts)
    return 0, 0


_numbers = {}
_next_number = [1]


def number_of(loader):
    """A small number for a loader, from 1 on."""
    key = id(loader)
    if key not in _numbers:
        _numbers[key] = _next_number[0]
        _next_number[0] += 1
        with contextlib.suppress(TypeError):  # what has no weak references stays
            weakref.finalize(loader, _numbers.pop, key, None)
    return _numbers[key]


_weights = {}  # of a loader's batches: how many were asked, and (samples, bytes) of the last that was weighed


def _weight(loader, batch):
    """Weighing costs as much as all else here: after the first batches every eighth is."""
    found = _weights.get(loader)
    if found is None:
        found = _weights[loader] = [0, None]
    found[0] += 1
    if found[0] <= 16 or not found[0] & 7:
        found[1] = weigh(batch)
    return found[1]


def wait(step, loader, accounts=None):
    """Calls step() as the wait for a batch."""
    if current.depth:
        return step()
    current.depth = 1
    if _cuda:
        device = current.device or _device()
        if device:
            device.collect()
    if current.batches < _SETTLED:
        _look(current.batches)
    span = Span(WAIT, loader)
    before = accounts() if accounts else None
    try:
        batch = step()
    except BaseException as error:
        span.end(flags=EXHAUSTED if isinstance(error, StopIteration) else 0)
        raise
    finally:
        current.depth = 0
    if accounts:  # the loader's own: how much of the wait was fetching
        after = accounts()
        fetched = max(0, int((after - before) * 1e9))
        waited = now() - span.start
        lanes.lane().write(FETCH, span.start, span.start + waited, loader, max(0, waited - fetched), 0, ACCOUNTED)
    samples, size = _weight(loader, batch)
    span.end(samples, size)
    current.trained = False
    current.batches += 1
    if current.batches == _COUNTED:
        _count(True)
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


def _queue_ns():
    """Nanoseconds this thread was ready and had no core."""
    words = lanes.ask("/proc/thread-self/schedstat").split()
    return int(words[1]) if len(words) > 1 else 0


class Reading:
    """What this process has read, between two times of asking. Every eighth fetch asks: it costs microseconds."""

    EVERY = 8

    def __init__(self):
        self.fetches = self.blocked = 0
        self.last = None

    def add(self, blocked, loader, mode):
        self.fetches += 1
        self.blocked += blocked
        if self.last is not None and mode == OBSERVED and self.fetches < self.EVERY:
            return
        words = lanes.ask("/proc/self/io").split()
        if len(words) < 10:
            return
        read = int(words[1]), int(words[9])  # by read(), and from a disk
        if self.last is not None:
            at, size, disk = now(), read[0] - self.last[0], read[1] - self.last[1]
            lanes.lane().write(READ, at - self.blocked, at, loader, max(0, size), max(0, disk), self.fetches, mode)
        self.last, self.fetches, self.blocked = read, 0, 0


_reading = {}  # of each thread that fetches


class Accounts:
    """What one fetch of a batch spent in transforms."""

    __slots__ = ("cpu", "wall")

    def __init__(self):
        self.cpu = self.wall = 0


def _timed(call, args, kwargs):
    accounts = current.accounts
    if accounts is None:
        return call(*args, **kwargs)
    current.accounts = None  # transforms within transforms count once
    start, cpu = now(), time.thread_time_ns()
    try:
        return call(*args, **kwargs)
    finally:
        accounts.wall += now() - start
        accounts.cpu += time.thread_time_ns() - cpu
        current.accounts = accounts


class TimedFunction:
    """A function that is a transform. A pickle of it is the function again."""

    leat_observed = True

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return _timed(self.function, args, kwargs)

    def __getattr__(self, name):
        if name == "function":  # while it is being made
            raise AttributeError(name)
        return getattr(self.function, name)

    def __reduce__(self):
        return functools.partial, (self.function,)


def _follow_transforms(dataset, depth=4):
    """Times what a dataset calls its transforms. Classes are patched and not objects, so that their types stay; a plain function is
    replaced in this process's dataset."""
    for inner in [getattr(dataset, "dataset", None), *list(getattr(dataset, "datasets", None) or [])[:64]]:
        if depth and inner is not None:
            _follow_transforms(inner, depth - 1)
    for name in ("transform", "transforms", "target_transform", "joint_transform"):
        found = getattr(dataset, "__dict__", {}).get(name)
        if found is None or getattr(found, "leat_observed", False) or not callable(found):
            continue
        if hasattr(found, "__code__"):
            dataset.__dict__[name] = TimedFunction(found)
        elif not isinstance(found, type):
            _time_calls(type(found))


def _time_calls(kind):
    plain = kind.__call__
    if getattr(plain, "leat_observed", False):
        return

    @functools.wraps(plain)
    def call(*args, **kwargs):
        return _timed(plain, args, kwargs)

    call.leat_observed = True
    with contextlib.suppress(TypeError):  # a class of an extension
        kind.__call__ = call


def _patch_fetch(kind):
    plain = kind.fetch
    thread_time = time.thread_time_ns

    def fetch(self, possibly_batched_index):
        if not getattr(self, "leat_followed", False):
            self.leat_followed = True
            _follow_transforms(self.dataset)
        accounts = Accounts()
        outer, current.accounts = current.accounts, accounts
        queue, cpu, start = _queue_ns(), thread_time(), now()
        try:
            return plain(self, possibly_batched_index)
        finally:
            end = now()
            current.accounts = outer
            cpu = thread_time() - cpu
            # Transforms count whole. Outside of them the processor's time is preparing, and what remains is fetching; time
            # without a core, though ready for one, belongs to both in proportion.
            wall, busy = end - start - accounts.wall, cpu - accounts.cpu
            queue = max(0, _queue_ns() - queue) * wall // max(1, end - start)
            blocked = max(0, wall - busy - queue)
            prepare = accounts.wall + wall * busy // max(1, busy + blocked)
            loader, mode = _worker or (_serial_loader[0], current.mode)
            lanes.lane().write(FETCH, start, end, loader, max(0, min(prepare, end - start)), max(0, cpu), 0, mode)
            thread = threading.get_ident()
            if thread not in _reading:
                _reading[thread] = Reading()
            _reading[thread].add(blocked, loader, mode)
            if _opened is not None:
                _tell_files(possibly_batched_index)

    kind.fetch = fetch


_opened = None  # files that this fetch has opened, where differential runs ask for them


def _follow_files():
    """Cold runs drop from the page cache what the fetches of the script have opened."""
    global _opened  # noqa: PLW0603
    _opened = []

    def opening(event, args):
        if event == "open" and current.accounts is not None and isinstance(args[0], (str, bytes)):
            _opened.append(os.fsdecode(args[0]))

    sys.addaudithook(opening)


def _kept_open():
    """Files that the process holds open or mapped: an archive, a memory map."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
        with open("/proc/self/maps") as maps:
            found.update(line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6)
    return [
        path
        for path in found
        if path.startswith("/")
        and not path.startswith(("/dev/", "/proc/", "/sys/", sys.prefix, sys.base_prefix, "/usr/", "/lib"))
        and os.path.isfile(path)
    ]


def _tell_files(index):
    replay = sys.modules.get("_leat_replay")
    if replay is None:
        return
    paths, _opened[:] = [path for path in _opened if "\0" not in path and "\n" not in path], []
    if not paths:
        if "kept" not in _files:
            _files["kept"] = _kept_open()
        paths = _files["kept"]
    if paths:
        line = "\0".join([replay.key_of(index), *map(os.path.abspath, paths)]) + "\n"
        with contextlib.suppress(OSError, UnicodeError):
            if "fd" not in _files:
                name = os.path.join(lanes.folder, f"files-{os.getpid()}")
                _files["fd"] = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _files.setdefault("size", 0) < _FILES_BYTES:
                _files["size"] += os.write(_files["fd"], os.fsencode(line))


_files = {}
_FILES_BYTES = 32 << 20


_worker = ()  # (loader, mode) of the process that is one of its workers


def _who():
    global _worker  # noqa: PLW0603
    loader, _, mode = os.environ.get("LEAT_PROFILE_LOADER", "").partition(":")
    _worker = (int(loader), int(mode or 0)) if loader.isdigit() else ()


_serial_loader = [0]  # the loader whose next() fetches in this process


def _patch_dataloader(torch):
    data = torch.utils.data
    base = data.dataloader._BaseDataLoaderIter
    plain_next, plain_init = base.__next__, data.dataloader._MultiProcessingDataLoaderIter.__init__

    def following(self):
        number = self.__dict__.get("leat_number", 0)
        _serial_loader[0] = number
        step = functools.partial(plain_next, self)
        return wait(_replayer[0].choose(self, step) if _replayer and not current.depth else step, number)

    def starting(self, loader):
        # Workers learn from the environment whose they are, however they are started.
        os.environ["LEAT_PROFILE_LOADER"] = f"{number_of(loader)}:{getattr(loader, 'leat_mode', OBSERVED)}"
        try:
            plain_init(self, loader)
        finally:
            del os.environ["LEAT_PROFILE_LOADER"]

    plain_iter = data.DataLoader._get_iterator

    def iterator(self):
        made = plain_iter(self)
        made.leat_number = number_of(self)
        made.leat_ahead = self.num_workers * (self.prefetch_factor or 0)
        if _replayer:
            made.leat_loader = self  # to read samples again
        if not current.depth and not hasattr(self, "leat_mode"):
            lanes.put(lanes.W_WORKERS, self.num_workers)
            with contextlib.suppress(Exception):  # it need not have a length
                lanes.put(lanes.W_SAMPLES, len(self.dataset))
        return made

    base.__next__ = base.next = following
    data.dataloader._MultiProcessingDataLoaderIter.__init__ = starting
    data.DataLoader._get_iterator = iterator
    _patch_fetch(data._utils.fetch._MapDatasetFetcher)
    _patch_fetch(data._utils.fetch._IterableDatasetFetcher)


_replayer = []  # of differential runs, where they are asked for


def _patch_leat(module):
    kind = module.Loader
    plain = kind.__iter__

    def watched(self):
        def fetching():
            return self.stats()["wait_by_cause_s"]["fetch"]

        return Watched(plain(self), number_of(self), fetching)

    kind.__iter__ = watched


# --- the step -----------------------------------------------------------------------------------------------------------


def _patch_backward(torch):
    plain = torch.autograd.backward

    def backward(tensors, *args, **kwargs):
        current.trained = True
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
            if handle is not None:
                handle.remove()
            if comm:
                comm[-1].end()
            span.end()

    torch.autograd.backward = backward


def _patch_optimizer(torch):
    spans = []  # open ones: a step may call another's

    def before(optimizer, args, kwargs):
        if _cuda and current.device is None:
            _device()
        spans.append((optimizer, Span(OPTIM)))

    def after(optimizer, args, kwargs):
        while spans:  # what is above was left by an exception
            mine, span = spans.pop()
            if mine is optimizer:
                span.end()
                return

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
                device.free.append(first)
            return made

        copy.__name__, copy.__qualname__, copy.__doc__ = name, f"Tensor.{name}", plain.__doc__
        setattr(torch.Tensor, name, copy)

    for name in ("to", "cuda"):
        follow(name)


_COLLECTIVES = [
    *("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_tensor"),
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object"),
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

    def follow(plain):
        def collective(*args, **kwargs):
            if getattr(busy, "on", False) or torch.compiler.is_compiling():
                return plain(*args, **kwargs)
            busy.on = True
            current.collectives += 1
            span = Span(COMM)
            try:
                return plain(*args, **kwargs)
            finally:
                busy.on = False
                span.end(weigh([a for a in args if isinstance(a, torch.Tensor)])[1])

        collective.__name__, collective.__doc__, collective.__wrapped__ = plain.__name__, plain.__doc__, plain
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
        dist._broadcast_coalesced = follow(dist._broadcast_coalesced)
    plain_init = inner.init_process_group

    def init_process_group(*args, **kwargs):
        done = plain_init(*args, **kwargs)
        lanes.put(lanes.W_RANK, dist.get_rank() + 1)
        lanes.put(lanes.W_WORLD, dist.get_world_size())
        _world[:] = [dist.get_world_size()] if dist.get_world_size() > 1 else []
        return done

    init_process_group.__doc__, init_process_group.__wrapped__ = plain_init.__doc__, plain_init
    inner.init_process_group = dist.init_process_group = init_process_group
    _patch_ddp(torch.nn.parallel.DistributedDataParallel)


def _patch_ddp(kind):
    plain = kind.__init__

    def init(self, module, *args, **kwargs):
        plain(self, module, *args, **kwargs)
        size = sum(p.numel() * p.element_size() for p in self.module.parameters() if p.requires_grad)
        lanes.put(lanes.W_GRADIENT_BYTES, size)
        bucket = (kwargs.get("bucket_cap_mb") or 25) * (1 << 20)
        lanes.put(lanes.W_BUCKETS, int(-(-size // bucket)))
        _exchanging.append(weakref.ref(self))

    init.__wrapped__ = plain
    kind.__init__ = init


# --- looked at once -----------------------------------------------------------------------------------------------------


_COUNTED = 2  # the batch whose step is counted in FLOPs: one of the warm-up, which is not measured
_SETTLED = 8  # batches after which there is nothing more to look at
_exchanging = []  # models whose gradients are exchanged
_counter = []
_bucket_sizes = []


def _look(batches):
    """At the first batches: what is only known once the training runs."""
    if batches == _COUNTED:
        _count(False)
    if batches == _SETTLED - 2:
        for reference in _exchanging[-1:]:
            with contextlib.suppress(Exception):
                _tell_buckets(reference())
    if batches == _SETTLED - 1:
        _peak()


def _tell_buckets(model):
    """DDP's own word on its buckets, which it makes anew after the first pass, in the order in which gradients come."""
    said = model._get_ddp_logging_data()
    text = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes") or ""
    sizes = [int(word) for word in str(text).replace(",", " ").split()][:64]
    at = now()
    for place, size in enumerate(sizes):
        lanes.lane().write(lanes.BUCKET, at, at, place, size)
    if sizes:
        lanes.put(lanes.W_BUCKETS, len(sizes))
        _bucket_sizes[:] = sizes


def _count(begin):
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


def _patch_checkpoints(torch):
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


def _patch_compile(torch):
    plain = torch.compile

    def compile(*args, **kwargs):
        current.compiled = True
        return plain(*args, **kwargs)

    compile.__doc__, compile.__wrapped__ = plain.__doc__, plain
    torch.compile = compile


# --- putting them in place ----------------------------------------------------------------------------------------------


def _follow_torch(torch):
    if torch.backends.cuda.is_built():
        _cuda.append(torch)
    for patch in (
        *(_patch_dataloader, _patch_backward, _patch_optimizer, _patch_copies, _patch_distributed),
        *(_patch_checkpoints, _patch_compile),
    ):
        try:
            patch(torch)
        except Exception as error:  # another release of torch: the rest is still worth knowing
            _broken.append(f"{patch.__name__[7:]}: {error!r}")
    if _broken:
        lanes.note(f"this release of torch ({torch.__version__}) cannot be followed here: {'; '.join(_broken)}")
    if os.environ.get("LEAT_PROFILE_RUNS"):
        _follow_files()
        _part("replay")
    if os.environ.get("LEAT_PROFILE_RUNS") and not os.environ.get("LEAT_PROFILE_LOADER"):
        made = sys.modules["_leat_replay"].install(torch, current, lanes.folder, lanes.note)
        if made:
            _replayer.append(made)


_FOLLOWED = {"torch": _follow_torch, "leat.loader": _patch_leat}


class _Finder(importlib.abc.MetaPathFinder):
    """Calls the hooks of a module right after its import."""

    def find_spec(self, name, path, target=None):
        hook = _FOLLOWED.get(name)
        if hook is None or name in _found:
            return None
        _found.add(name)  # found by the others now
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            _found.discard(name)
            return None
        plain = spec.loader.exec_module

        def exec_module(module):
            plain(module)
            hook(module)

        spec.loader.exec_module = exec_module
        return spec


_found = set()


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
    _who()
    os.register_at_fork(after_in_child=_forget)
    atexit.register(lanes.end, lanes.ENDED)
    atexit.register(_peak)
    plain_exit, plain_hook = os._exit, sys.excepthook

    def leave(status):
        lanes.end(lanes.ENDED)
        plain_exit(status)

    def raised(*error):
        lanes.end(lanes.RAISED)
        plain_hook(*error)

    os._exit, sys.excepthook = leave, raised
    for name, hook in _FOLLOWED.items():
        if name in sys.modules:
            _found.add(name)
            hook(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
