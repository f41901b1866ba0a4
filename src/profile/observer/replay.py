"""Differential runs of `leat profile --time`: blocks of steps that get other batches, put between the script's own steps.

After each block model, optimizer, gradients and random numbers are what they were before it, so that the training goes on as if
there had been none. All ranks do the same: they count the same steps, and rank 0 says whether there is another block and of
which mode. `synthetic` batches come from memory; in `alone` gradients are not exchanged either; in `single` the other ranks stand
still meanwhile; `cached` reads again what was just read, and `cold` does so after the files were dropped from the page cache.
"""

import contextlib
import copy
import datetime
import gc
import os
import random
import statistics
import sys
import time
import weakref
from collections import deque

OBSERVED, SYNTHETIC, ALONE, SINGLE, CACHED, COLD = range(6)
WARMUP = 0x80
STEPS = 20  # counted in each block
SETTLE = 2  # not counted at its beginning
FIRST = 10  # steps before the first block: an optimizer has made its state by then, and what happens each step is known
KEPT = 4  # batches
KEPT_BYTES = 1 << 30
PATIENCE_S = 60
STANDING_S = 600  # how long others stand still for a `single` block
MEMORY_BYTES = 32 << 20  # to read for the rate of memory
INDICES = 256  # of batches, that are remembered for reading them again
PAIRS = [(OBSERVED, SYNTHETIC), (SYNTHETIC, ALONE), (SYNTHETIC, SINGLE), (CACHED, SYNTHETIC), (COLD, CACHED)]
LEAST = 4  # blocks of each mode before a difference counts as known
T_VALUES = {4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # of 95 %


def clone(batch, torch):
    """A batch in memory of its own."""
    if isinstance(batch, torch.Tensor):
        made = batch.detach().clone()
        return made.pin_memory() if batch.is_pinned() else made
    if type(batch) in (list, tuple):
        return type(batch)(clone(part, torch) for part in batch)
    if type(batch) is dict:
        return {key: clone(part, torch) for key, part in batch.items()}
    return copy.deepcopy(batch)


def versions(batch, torch):
    """Changes when a tensor of the batch is written to. None: it cannot be told."""
    if isinstance(batch, torch.Tensor):
        return (id(batch), batch._version)
    if type(batch) in (list, tuple):
        return tuple(versions(part, torch) for part in batch)
    if type(batch) is dict:
        return tuple((key, versions(part, torch)) for key, part in batch.items())
    return None if not isinstance(batch, (int, float, str, bytes, type(None))) else batch


class Snapshot:
    """What a step changes: of every module, optimizer, scheduler and scaler that this process has."""

    def __init__(self, torch):
        self.torch = torch
        kinds = {"module": torch.nn.Module, "optimizer": torch.optim.Optimizer}
        kinds["scheduler"] = torch.optim.lr_scheduler.LRScheduler
        kinds["scaler"] = torch.amp.GradScaler
        found = {name: [] for name in kinds}
        for thing in gc.get_objects():
            for name, kind in kinds.items():
                if issubclass(type(thing), kind):  # isinstance() would ask proxies who they are
                    found[name].append(thing)
        self.exchanging = [m for m in found["module"] if isinstance(m, torch.nn.parallel.DistributedDataParallel)]
        tensors = {}
        for module in found["module"]:
            for tensor in [*module._parameters.values(), *module._buffers.values()]:
                if tensor is not None:
                    tensors[id(tensor)] = tensor
        self.tensors = [
            (t, t.detach().clone(), None if t.grad is None else t.grad.detach().clone()) for t in tensors.values()
        ]
        self.states = [(o, {p: self.copied(s) for p, s in o.state.items()}) for o in found["optimizer"]]
        self.groups = [
            (g, {k: v for k, v in self.copied(g).items() if k != "params"})
            for o in found["optimizer"]
            for g in o.param_groups
        ]
        self.schedulers = [(s, copy.deepcopy(s.state_dict())) for s in found["scheduler"]]
        self.scalers = [
            (s, s._scale.clone(), s._growth_tracker.clone()) for s in found["scaler"] if s._scale is not None
        ]
        numpy = sys.modules.get("numpy")
        self.random = random.getstate(), numpy and numpy.random.get_state(), torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def copied(self, values):
        tensor = self.torch.Tensor
        return {
            k: v.detach().clone() if isinstance(v, tensor) else copy.copy(v) if k != "params" else v
            for k, v in values.items()
        }

    def put(self, values, saved):
        """Into the same tensors: others may hold them."""
        tensor = self.torch.Tensor
        for key in [k for k in values if k not in saved and k != "params"]:
            del values[key]
        for key, value in saved.items():
            if isinstance(value, tensor) and isinstance(values.get(key), tensor):
                values[key].data.copy_(value)
            else:
                values[key] = value

    def restore(self):
        torch = self.torch
        with torch.no_grad():
            for tensor, saved, grad in self.tensors:
                tensor.data.copy_(saved)
                if grad is None or tensor.grad is None:
                    tensor.grad = grad
                else:
                    tensor.grad.data.copy_(grad)
            for optimizer, states in self.states:
                for parameter in [p for p in optimizer.state if p not in states]:
                    del optimizer.state[parameter]
                for parameter, saved in states.items():
                    self.put(optimizer.state[parameter], saved)
            for group, saved in self.groups:
                self.put(group, saved)
            for scheduler, saved in self.schedulers:
                scheduler.load_state_dict(saved)
            for scaler, scale, tracker in self.scalers:
                scaler._scale.copy_(scale)
                scaler._growth_tracker.copy_(tracker)
        python, numpy, cpu = self.random
        random.setstate(python)
        if numpy is not None:
            sys.modules["numpy"].random.set_state(numpy)
        torch.set_rng_state(cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)


class Files:
    """Which files each fetch of a batch opened: its processes append lines to a file in the folder of lanes."""

    def __init__(self, folder):
        self.folder = folder
        self.at = {}  # how far each was read
        self.of = {}  # the key of a batch's indices -> its files
        self.timed = False

    def look(self):
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                if not entry.name.startswith("files-"):
                    continue
                with open(entry.path, errors="surrogateescape") as file:
                    file.seek(self.at.get(entry.name, 0))
                    for line in file:
                        if line.endswith("\n"):
                            key, *paths = line[:-1].split("\0")
                            self.of[key] = paths
                    self.at[entry.name] = file.tell()
        while len(self.of) > 4 * INDICES:
            self.of.pop(next(iter(self.of)))

    def drop(self, indices):
        """Out of the page cache; needs no root. How many were."""
        dropped = set()
        for index in indices:
            for path in self.of.get(key_of(index), ()):
                if path in dropped:
                    continue
                with contextlib.suppress(OSError):
                    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                        dropped.add(path)
                    finally:
                        os.close(fd)
        return len(dropped)

    def time_memory(self, indices):
        """How fast this machine reads what it has in memory, of the same files. Once."""
        if self.timed:
            return
        from _leat_observe import lanes

        self.timed, size, start = True, 0, lanes.now()
        for index in indices:
            for path in self.of.get(key_of(index), ()):
                with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
                    size += len(file.read(min(MEMORY_BYTES, MEMORY_BYTES * 2 - size)))
                if size >= MEMORY_BYTES:
                    break
        if size >= 1 << 20:
            lanes.lane().write(lanes.READ, start, lanes.now(), 0, size, 0, 0, CACHED)


def key_of(index):
    """The same in every process."""
    try:
        return str(hash(tuple(index) if isinstance(index, list) else index))
    except TypeError:
        return ""


def narrow(blocks, precision):
    """Whether all differences are known well enough: blocks are (mode, seconds of a step) in the order in which they were."""
    step = statistics.fmean([s for mode, s in blocks if mode == OBSERVED] or [0])
    ran = {mode for mode, _ in blocks}
    for first, second in PAIRS:
        if not {first, second} <= ran:
            continue
        last, differences = None, []
        for mode, seconds in blocks:
            if mode == first:
                last = seconds
            elif mode == second and last is not None:
                differences.append(last - seconds)
        n = len(differences)
        if n < LEAST:
            return False
        half = T_VALUES.get(n, 2.2) * statistics.stdev(differences) / n**0.5
        if half > precision * step:
            return False
    return step > 0


class Replayer:
    """Says at each batch whether the next is the loader's own or one from memory."""

    def __init__(self, torch, current, seconds, precision, folder, note):
        self.torch, self.current, self.note = torch, current, note
        self.seconds, self.precision = seconds, precision
        self.files = Files(folder)
        self.blocks = []  # (mode, seconds of a step)
        self.stamp = None  # (mode, of the last batch, steps and seconds so far)
        self.turn = 0  # in the list of modes
        self.reread = None  # the iterator of a cached or cold block
        self.loader = None
        self.linked = False
        self.until = None
        self.kept = []  # (the batch, as it was; the batch that is given out; versions of that)
        self.bytes = 0
        self.trained = 0  # steps in a row with the script's own batches
        self.settle = FIRST
        self.counted = STEPS
        self.last = None  # the iterator of the training
        self.snapshot = None
        self.left = 0
        self.block = 0

    def count(self):
        """Durations of steps, block by block, to know when enough is known."""
        now, mode = time.perf_counter(), self.current.mode
        if self.stamp is not None and self.stamp[0] == mode:
            self.stamp[2] += 1
            self.stamp[3] += now - self.stamp[1]
            self.stamp[1] = now
            return
        if self.stamp is not None and not self.stamp[0] & WARMUP and self.stamp[2] >= STEPS // 2:
            self.blocks.append((self.stamp[0], self.stamp[3] / self.stamp[2]))
        self.stamp = [mode, now, 0, 0.0]

    def choose(self, iterator, step):
        """What to call for the next batch."""
        if self.seconds:
            self.count()
        if self.snapshot is not None:
            if self.last is not None and self.last() is iterator and self.current.trained and self.left:
                return self.again
            self.stop()
        same = self.last is not None and self.last() is iterator
        if same and self.current.trained:
            self.trained += 1
            if self.trained > self.settle + self.counted and self.kept and self.seconds and self.another(iterator):
                return self.again
        else:
            self.trained = 0
            self.last = weakref.ref(iterator)
            ahead = getattr(iterator, "leat_ahead", 0)
            self.settle = FIRST + ahead
            self.counted = max(STEPS, ahead)  # workers give out batches in bursts, which must be counted whole
        self.current.mode = OBSERVED | (WARMUP if self.trained < self.settle else 0)
        return (lambda: self.keep(step())) if len(self.kept) < KEPT and self.trained < self.settle else step

    def keep(self, batch):
        from _leat_observe import weigh

        self.bytes += 2 * weigh(batch)[1]
        if not self.kept or self.bytes <= KEPT_BYTES:
            try:
                self.kept.append([clone(batch, self.torch), None, None])
            except Exception as error:
                self.end(f"no replayed steps: a batch cannot be copied: {error!r}")
        return batch

    def end(self, why=None):
        self.seconds = 0
        self.kept.clear()
        if why:
            self.note(why)

    def store(self):
        """What all ranks share; None: there is only one."""
        dist = self.torch.distributed
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return None
        return dist.distributed_c10d._get_default_store()

    def agreed(self, mode):
        """What rank 0 wants, OBSERVED for no block: the same on every rank."""
        store = self.store()
        if store is None:
            return mode
        key = f"leat/profile/{self.block}"
        if self.torch.distributed.get_rank() == 0:
            store.set(key, str(mode))
            return mode
        store.wait([key], datetime.timedelta(seconds=PATIENCE_S))
        return int(store.get(key))

    def next_mode(self, iterator, exchanging):
        """The modes in turn, as far as this script has them."""
        modes = [SYNTHETIC]
        if exchanging:
            modes.append(ALONE)
            if self.store() is not None and not self.current.collectives:
                modes.append(SINGLE)
        if self.can_reread(iterator):
            modes.append(CACHED)
            if any(self.files.of.get(key_of(index)) for index in iterator.leat_indices):
                modes.append(COLD)
        self.turn += 1
        return modes[(self.turn - 1) % len(modes)]

    def can_reread(self, iterator):
        self.files.look()
        loader = getattr(iterator, "leat_loader", None)
        return loader is not None and len(getattr(iterator, "leat_indices", ())) >= self.needed(loader)

    def needed(self, loader):
        return SETTLE + loader.num_workers + STEPS + 1

    def read_again(self, iterator, mode):
        """A loader like the script's, for the batches that it has just read."""
        loader = iterator.leat_loader
        indices = list(iterator.leat_indices)
        ahead = loader.num_workers * (loader.prefetch_factor or 0)
        indices = indices[-self.needed(loader) - ahead :]
        if mode == COLD and not self.files.drop(indices):
            return False
        if mode == CACHED:
            self.files.time_memory(indices)
        again = copy.copy(loader)
        # Such a loader refuses to have these set once it is made.
        fields = {"batch_sampler": indices, "sampler": None, "persistent_workers": False, "_iterator": None}
        if loader.batch_sampler is None:
            fields.update(batch_sampler=None, sampler=indices)
        again.__dict__.update(fields, leat_mode=mode)
        self.loader = again
        self.reread = iter(again)
        return True

    def another(self, iterator):
        """Begins a block, if the time allows it and there is something left to learn."""
        if self.until is None:
            self.until = time.monotonic() + self.seconds
        self.block += 1
        snapshot = None
        try:
            wanted = OBSERVED
            ddp = self.torch.nn.parallel.DistributedDataParallel
            exchanging = any(issubclass(type(thing), ddp) for thing in gc.get_objects())
            if time.monotonic() < self.until and not narrow(self.blocks, self.precision):
                wanted = self.next_mode(iterator, exchanging)
            mode = self.agreed(wanted)
            if mode != OBSERVED and not self.linked and self.store() is not None:
                self.linked = True
                self.link()
            if mode != OBSERVED:
                snapshot = Snapshot(self.torch)  # before a loader draws its seed
            if mode == SINGLE and self.torch.distributed.get_rank() != 0:
                self.store().wait([f"leat/profile/{self.block}/done"], datetime.timedelta(seconds=STANDING_S))
                self.rest()
                return False
            if mode in (CACHED, COLD) and not self.read_again(iterator, mode):
                raise RuntimeError("the samples cannot be read again")
        except Exception as error:  # the store is gone, or rank 0 is
            if snapshot is not None:
                snapshot.restore()
            self.end(f"differential runs ended early: {error!r}")
            return False
        if mode == OBSERVED:
            self.end()
            return False
        self.snapshot = snapshot
        self.settle_block = SETTLE + (self.loader.num_workers if self.reread is not None else 0)
        self.left = self.settle_block + STEPS + 1  # the last is not counted: the change is in it
        self.running = mode
        self.exchange = [(m, m.require_backward_grad_sync, m.require_forward_param_sync) for m in snapshot.exchanging]
        if mode in (ALONE, SINGLE):
            for module in snapshot.exchanging:
                module.require_backward_grad_sync = module.require_forward_param_sync = False
        weakref.finalize(iterator, self.stop)
        self.current.mode = self.running | WARMUP
        return True

    def link(self):
        from _leat_observe import _part, lanes, once

        exchange = _part("exchange")
        exchange.told[:] = once.bucket_sizes
        exchange.measure(self.torch, lanes, self.seconds / 10)

    def again(self):
        """A batch of the block."""
        self.left -= 1
        done = self.settle_block + STEPS - self.left
        self.current.mode = self.running | (WARMUP if done < self.settle_block else 0)
        if self.reread is not None:
            return next(self.reread)
        row = self.kept[self.left % len(self.kept)]
        now = None if row[1] is None else versions(row[1], self.torch)
        if row[1] is None or now is None or now != row[2]:  # first, or the script has written into it
            row[1] = clone(row[0], self.torch)
            row[2] = versions(row[1], self.torch)
        return row[1]

    def stop(self):
        """Ends a block: everything is as it was before it."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is None:
            return
        for module, backward, forward in self.exchange:
            module.require_backward_grad_sync, module.require_forward_param_sync = backward, forward
        if self.reread is not None:
            with contextlib.suppress(Exception):  # its workers, which else end when it is collected
                self.reread._shutdown_workers()
            self.reread = self.loader = None
        snapshot.restore()
        if self.running == SINGLE:
            with contextlib.suppress(Exception):
                self.store().set(f"leat/profile/{self.block}/done", "1")
        self.rest()

    def rest(self):
        """The script's own steps again, which settle first."""
        self.left = 0
        self.trained = 0
        iterator = self.last() if self.last else None
        self.settle = SETTLE + getattr(iterator, "leat_ahead", 0)
        self.current.mode = OBSERVED | WARMUP
        self.current.trained = True


def remember(torch):
    """Iterators of a DataLoader know which samples their last batches are of."""
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    plain = base._next_index

    def next_index(self):
        index = plain(self)
        if self._dataset_kind == torch.utils.data.dataloader._DatasetKind.Map:
            self.__dict__.setdefault("leat_indices", deque(maxlen=INDICES)).append(index)
        return index

    base._next_index = next_index


def install(torch, current, folder, note):
    """A replayer for this process, or None when none is asked for."""
    try:
        seconds = float(os.environ.get("LEAT_PROFILE_RUNS", "") or 0)
        precision = float(os.environ.get("LEAT_PROFILE_PRECISION", "") or 0)
    except ValueError:
        seconds = precision = 0
    if seconds <= 0:
        return None
    replayer = Replayer(torch, current, seconds, precision, folder, note)
    remember(torch)
    plain = torch.save

    def save(*args, **kwargs):
        replayer.stop()  # what is saved is the training's own
        return plain(*args, **kwargs)

    save.__doc__, save.__wrapped__ = plain.__doc__, plain
    torch.save = save
    return replayer
