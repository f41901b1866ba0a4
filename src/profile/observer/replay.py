"""Differential runs of `leat profile --time`: blocks of steps that get batches from memory, put between the script's own steps.

After each block model, optimizer, gradients and random numbers are what they were before it, so that the training goes on as if
there had been none. All ranks do the same: they count the same steps, and rank 0 says whether there is another block.
"""

import copy
import gc
import os
import random
import sys
import time
import weakref

OBSERVED, SYNTHETIC, ALONE = range(3)
WARMUP = 0x80
STEPS = 20  # counted in each block
SETTLE = 2  # not counted at its beginning
FIRST = 5  # steps before the first block: an optimizer has made its state by then
KEPT = 4  # batches
KEPT_BYTES = 1 << 30
PATIENCE_S = 60


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


class Replayer:
    """Says at each batch whether the next is the loader's own or one from memory."""

    def __init__(self, torch, current, seconds, note):
        self.torch, self.current, self.note = torch, current, note
        self.seconds = seconds
        self.until = None
        self.kept = []  # (the batch, as it was; the batch that is given out; versions of that)
        self.bytes = 0
        self.trained = 0  # steps in a row with the script's own batches
        self.settle = FIRST
        self.last = None  # the iterator of the training
        self.snapshot = None
        self.left = 0
        self.block = 0
        self.mode = SYNTHETIC

    def choose(self, iterator, step):
        """What to call for the next batch."""
        if self.snapshot is not None:
            if self.last is not None and self.last() is iterator and self.current.trained and self.left:
                return self.again
            self.stop()
        same = self.last is not None and self.last() is iterator
        if same and self.current.trained:
            self.trained += 1
            if self.trained > self.settle + STEPS and self.kept and self.seconds and self.another(iterator):
                return self.again
        else:
            self.trained = 0
            self.last = weakref.ref(iterator)
            self.settle = FIRST + getattr(iterator, "leat_ahead", 0)
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

    def agreed(self, wanted):
        """What rank 0 wants: the same on every rank."""
        dist = self.torch.distributed
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return wanted
        import datetime

        store, key = dist.distributed_c10d._get_default_store(), f"leat/profile/{self.block}"
        if dist.get_rank() == 0:
            store.set(key, str(int(wanted)))
            return wanted
        store.wait([key], datetime.timedelta(seconds=PATIENCE_S))
        return store.get(key) == b"1"

    def another(self, iterator):
        """Begins a block, if the time allows it."""
        if self.until is None:
            self.until = time.monotonic() + self.seconds
        self.block += 1
        try:
            wanted = self.agreed(time.monotonic() < self.until)
        except Exception as error:  # the store is gone, or rank 0 is
            self.end(f"replayed steps ended early: {error!r}")
            return False
        if not wanted:
            self.end()
            return False
        self.snapshot = Snapshot(self.torch)
        self.left = SETTLE + STEPS + 1  # the last is not counted: the change is in it
        alone = self.mode == ALONE and self.snapshot.exchanging
        self.running = ALONE if alone else SYNTHETIC
        self.mode = SYNTHETIC if self.mode == ALONE else ALONE
        if alone:
            for module in self.snapshot.exchanging:
                module.require_backward_grad_sync = False
        weakref.finalize(iterator, self.stop)
        self.current.mode = self.running | WARMUP
        return True

    def again(self):
        """A batch from memory."""
        self.left -= 1
        done = SETTLE + STEPS - self.left
        row = self.kept[self.left % len(self.kept)]
        now = None if row[1] is None else versions(row[1], self.torch)
        if row[1] is None or now is None or now != row[2]:  # first, or the script has written into it
            row[1] = clone(row[0], self.torch)
            row[2] = versions(row[1], self.torch)
        self.current.mode = self.running | (WARMUP if done < SETTLE else 0)
        return row[1]

    def stop(self):
        """Ends a block: everything is as it was before it."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is None:
            return
        for module in snapshot.exchanging:
            module.require_backward_grad_sync = True
        snapshot.restore()
        self.left = 0
        self.trained = 0
        iterator = self.last() if self.last else None
        self.settle = SETTLE + getattr(iterator, "leat_ahead", 0)
        self.current.mode = OBSERVED | WARMUP
        self.current.trained = True


def install(torch, current, note):
    """A replayer for this process, or None when none is asked for."""
    try:
        seconds = float(os.environ.get("LEAT_PROFILE_RUNS", "") or 0)
    except ValueError:
        seconds = 0
    if seconds <= 0:
        return None
    replayer = Replayer(torch, current, seconds, note)
    plain = torch.save

    def save(*args, **kwargs):
        replayer.stop()  # what is saved is the training's own
        return plain(*args, **kwargs)

    save.__doc__, save.__wrapped__ = plain.__doc__, plain
    torch.save = save
    return replayer
