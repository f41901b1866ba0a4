"""Differential runs of `leat profile --time`: blocks of steps that get other batches, put between the script's own steps.

After each block model, optimizer, gradients and random numbers are what they were before it, so that the training goes on as if
there had been none. All ranks do the same: they count the same steps, and rank 0 says whether there is another block and of
which mode. Workers of the script's loader stand still meanwhile, and what they had finished by then is used up before they go on:
the training finds as many batches ready as it would have. `synthetic` batches come from memory; in `alone` gradients are not exchanged either; in `single` the other ranks stand
still meanwhile; `cached` reads again what was just read, and `cold` does so after the files were dropped from the page cache.
"""

import atexit
import contextlib
import copy
import datetime
import os
import statistics
import sys
import threading
import time
import weakref
from collections import deque

life, snapshots = (sys.modules["_leat_observe"]._part(name) for name in ("life", "snapshot"))
OBSERVED, SYNTHETIC, ALONE, SINGLE, CACHED, COLD = range(6)
WARMUP = sys.modules["_leat_lane"].WARMUP
STEPS = 20  # counted in each block, at least
SETTLE = 2  # not counted at its beginning
FIRST = 10  # steps before the first block: an optimizer has made its state by then, and what happens each step is known
KEPT = 4  # batches
KEPT_BYTES = 1 << 30
PATIENCE_S = 60
STANDING_S = 600  # how long others stand still for a `single` block
MEMORY_BYTES = 32 << 20  # to read for the rate of memory
KEEPS_UP = 10  # rounds of its workers after which a loader that never let the training wait is not going to
TURN_S = 0.05  # how long a batch may take that workers have ready
BUSY_S = 5.0  # how long a block waits for workers to finish their batches
INDICES = 1024  # of batches, that are remembered for reading them again
PAIRS = [(OBSERVED, SYNTHETIC), (SYNTHETIC, ALONE), (SYNTHETIC, SINGLE), (CACHED, SYNTHETIC), (COLD, CACHED)]
PERIOD_MOST = 64  # steps between two of the optimizer that a block keeps count of
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
                if not os.path.exists(f"/proc/{entry.name.removeprefix('files-')}"):
                    os.unlink(entry.path)  # a worker of an epoch that is over
                    del self.at[entry.name]
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


def rounds(steps, workers):
    """This many steps, or some more: workers finish at the same time, and what they finish must be counted whole."""
    return -(-steps // max(1, workers)) * max(1, workers)


def ahead(iterator):
    """Batches that workers have ready."""
    told = (getattr(iterator, "leat_source", None) or iterator).__dict__
    if "_data_queue" not in told:
        return 0
    queues = {id(queue): queue for queue in (told["_data_queue"], told["_worker_result_queue"])}
    arrived = sum(len(info) == 2 for info in list(told["_task_info"].values()))
    return arrived + sum(queue.qsize() for queue in queues.values())


def key_of(index):
    """The same in every process."""
    try:
        return str(hash(tuple(index) if isinstance(index, list) else index))
    except TypeError:
        return ""


def started_by(loader):
    """How its workers are started."""
    return (loader.multiprocessing_context or sys.modules["multiprocessing"]).get_start_method()


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
        self.pid = os.getpid()
        self.blocks = []  # (mode, seconds of a step)
        self.stamp = None  # (mode, of the last batch, steps and seconds so far)
        self.turn = 0  # in the list of modes
        self.reread = None  # the iterator of a cached or cold block
        self.loader = self.place = None
        self.linked = False
        self.until = None
        self.kept = []  # (the batch, as it was; the batch that is given out; versions of that)
        self.bytes = 0
        self.park = sys.modules["_leat_fetch"].Park(folder, os.getpid())
        self.target = 0  # batches that are to be ready when workers go on
        self.first = True  # the training's first epoch
        self.settled = False
        self.trained = 0  # steps in a row with the script's own batches
        self.settle = FIRST
        self.workers = 0
        self.counted = STEPS
        self.last = None  # the iterator of the training
        self.snapshot = None
        self.left = 0
        self.block = 0
        self.given = 0  # batches since the last step
        self.before = self.largest = 0  # batches of the first step of an iterator, the most of any later one
        self.since, self.period = 0, 1  # steps since the optimizer's last, and the most that there are between two
        self.iterations = 0  # of the block
        self.longest = 0  # row of steps
        self.rested = False  # a block has ended since the last batch
        self.own = snapshots.Own(torch)
        self.rates = []  # of learning, at the last block
        self.rated = False  # that was said
        self.looks = set()  # steps in which the script took weights out of the training
        self.revealed = None  # when they were last put back for that, within a block
        self.lives = (None, "")  # a store, and the name under which the ranks of now speak there

    def count(self):
        """Durations of steps, block by block, to know when enough is known."""
        now, mode = time.perf_counter(), self.current.mode
        if self.stamp is not None and self.stamp[0] == mode:
            self.stamp[2] += 1
            self.stamp[3] += now - self.stamp[1]
            self.stamp[1] = now
            return
        known = self.settled or (self.stamp and self.stamp[0] != OBSERVED)
        if self.stamp is not None and known and not self.stamp[0] & WARMUP and self.stamp[2] >= STEPS // 2:
            self.blocks.append((self.stamp[0], self.stamp[3] / self.stamp[2]))
        self.stamp = [mode, now, 0, 0.0]

    def choose(self, iterator, step, ready):
        """What to call for the next batch."""
        if self.seconds:
            self.count()
        fresh = iterator.__dict__.pop("leat_fresh", False)
        same = self.last is not None and self.last() is iterator and not fresh
        if same and not self.current.trained and self.given < max(self.before, self.largest):
            self.given += 1  # one more batch of the same step
            return self.more if self.snapshot is not None else step
        if self.snapshot is not None:
            if same and self.current.trained and (self.left or self.iterations % self.period):
                self.given = 1
                return self.again
            self.stop()
        rested, self.rested = self.rested, False
        if not same:
            self.begin(iterator)
        elif rested:
            pass  # the step before was of a block, which not every rank has made
        elif self.current.trained:
            self.trained += 1
            if self.seconds and not self.own.versions:
                self.own.look()
            self.longest = max(self.longest, self.trained)
            self.learn()
            self.look(ready)
            due = self.trained > self.settle + self.counted
            if due and self.kept and self.seconds and self.another(iterator):
                return self.again
        elif not self.trained:
            self.given += 1
        self.current.mode = OBSERVED | (WARMUP if self.seconds and self.trained < self.settle else 0)
        if self.park.closed:
            return self.use_up(iterator, step)
        keeps = self.seconds and self.first and self.trained and len(self.kept) < KEPT
        return (lambda: self.keep(step())) if keeps else step

    def learn(self):
        """How many batches a step takes, and after how many steps gradients are used: a script that accumulates them counts its
        iterations. Who takes more batches before the first step than for any other trains each a step late, and would train on
        what was meant for a block after it."""
        if not self.before:
            self.before = self.given
        else:
            self.largest = max(self.largest, self.given)
        self.given = 1
        self.since += 1
        if self.current.stepped:
            self.period, self.since = max(self.period, min(self.since, PERIOD_MOST)), 0
        if self.seconds and self.trained > 2 and self.before > self.largest:
            self.end("no differential runs: the script takes batches ahead of the steps that they are for")

    def begin(self, iterator):
        """The steps of an epoch; what is special at its beginning belongs to it, but for that of the training."""
        self.park.open()
        self.first = self.first and not self.trained
        self.last = weakref.ref(iterator)
        self.trained = 0
        self.given, self.before, self.largest = 1, 0, 0
        self.workers = getattr(iterator, "_num_workers", 0)
        self.settle = FIRST if self.first else 0
        self.counted = rounds(max(STEPS, 2 * self.workers), self.workers)

    def look(self, ready):
        """Whether the loader is in the state that it keeps: what it had time to prepare at the beginning is used up."""
        if self.trained > FIRST and not (ready and self.trained < KEEPS_UP * self.workers):
            self.settled = True

    def use_up(self, iterator, step):
        """After a block: first what workers finished in it."""
        if self.trained > self.workers or ahead(iterator) <= self.target:
            self.park.open()
            return step

        def patiently():
            # The batch whose turn it is may be one that was not begun.
            timer = threading.Timer(TURN_S, self.park.open)
            timer.start()
            try:
                return step()
            finally:
                timer.cancel()

        return patiently

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
        self.park.open()
        self.seconds = 0
        self.kept.clear()
        if why:
            self.note(why)

    def explain(self):
        """At the end: why there is nothing to compare."""
        if self.seconds and not self.block and self.longest:
            needed = self.settle + self.counted + 2
            self.note(
                f"no differential runs: they need {needed} training steps in a row, and there were {self.longest}"
            )
        elif self.seconds and not self.block and (self.current.stepped or self.current.trained):
            self.note("no differential runs: the script takes no batches from a DataLoader between its steps")

    def store(self):
        """What all ranks share; None: there is only one."""
        dist = self.torch.distributed
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return None
        return dist.distributed_c10d._get_default_store()

    def key(self, store):
        """Of what the ranks say about this block."""
        if self.lives[0] is not store:
            dist = self.torch.distributed
            self.lives = (store, life.begin(store, dist.get_rank(), dist.get_world_size(), PATIENCE_S))
        return f"{self.lives[1]}/{self.block}"

    def agreed(self, mode):
        """What rank 0 wants, OBSERVED for no block: the same on every rank."""
        store = self.store()
        if store is None:
            return mode
        key = self.key(store)
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
        if loader is None or (loader.num_workers and started_by(loader) == "forkserver"):
            return False  # its server has the environment of the first loader: workers would take themselves for the script's own
        return len(getattr(iterator, "leat_indices", ())) >= self.needed(loader)

    def needed(self, loader):
        steps = SETTLE + loader.num_workers + rounds(STEPS, loader.num_workers) + 2 + self.period
        return steps * max(1, self.largest)

    def read_again(self, iterator, mode):
        """A loader like the script's, for the batches that it has just read."""
        loader = iterator.leat_loader
        indices = list(iterator.leat_indices)
        ahead = loader.num_workers * (loader.prefetch_factor or 0)
        indices = indices[-self.needed(loader) - ahead :]
        if mode == COLD:
            self.files.drop(indices)  # the report says how cold it was
        if mode == CACHED:
            self.files.time_memory(indices)
        again = copy.copy(loader)
        # Such a loader refuses to have these set once it is made.
        fields = {"batch_sampler": indices, "sampler": None, "persistent_workers": False, "_iterator": None}
        if loader.batch_sampler is None:
            fields.update(batch_sampler=None, sampler=indices)
        again.__dict__.update(fields, leat_mode=mode)
        self.loader = again
        self.place = getattr(iterator, "leat_place", lambda batch: batch)
        self.reread = iter(again)
        self.reread.leat_reread = True

    def another(self, iterator):
        """Begins a block, if the time allows it and there is something left to learn."""
        if self.until is None:
            self.until = time.monotonic() + self.seconds
        self.block += 1
        snapshot, failed, mode = None, None, OBSERVED
        try:
            self.target = ahead(iterator)
            self.park.close()
            exchanging = any(module() is not None for module in sys.modules["_leat_once"].exchanging)
            if len(self.looks) > self.trained // 2:
                raise snapshots.Refused("the script takes weights out of the training in most of its steps")
            self.looks.clear()
            if time.monotonic() < self.until and not narrow(self.blocks, self.precision):
                mode = self.next_mode(iterator, exchanging)
        except Exception as error:
            failed, mode = error, OBSERVED
        try:
            mode = self.agreed(mode)
            if mode != OBSERVED:
                snapshot, failed = self.prepare(iterator, mode, failed)
                self.meet(failed)
            if mode == SINGLE and self.torch.distributed.get_rank() != 0:
                self.store().wait([f"{self.key(self.store())}/done"], datetime.timedelta(seconds=STANDING_S))
                self.rest()
                self.rested = False
                return False
        except Exception as error:  # the store is gone, or rank 0 is; or it has failed on one rank
            failed = error
        if failed is not None or mode == OBSERVED:
            self.drop_reread()
            if snapshot is not None:
                snapshot.restore()
            self.end(failed and f"differential runs ended early: {failed!r}")
            return False
        self.snapshot = snapshot
        self.spoiled = False
        self.iterations = 0
        reading = self.workers if self.reread is not None else 0
        self.settling = SETTLE + reading
        self.patience = time.monotonic() + BUSY_S
        self.left = rounds(STEPS, reading) + 2  # a step has the mode of the call before; the change is in the last
        self.running = mode
        self.exchange = [(m, m.require_backward_grad_sync, m.require_forward_param_sync) for m in snapshot.exchanging]
        if mode in (ALONE, SINGLE):
            for module in snapshot.exchanging:
                module.require_backward_grad_sync = module.require_forward_param_sync = False
        weakref.finalize(iterator, self.stop)
        self.current.mode = self.running | WARMUP
        return True

    def prepare(self, iterator, mode, failed):
        """(what has to be put back after the block, what went wrong)."""
        snapshot = None
        try:
            if not self.linked and self.store() is not None:
                self.linked = True
                self.link()  # all ranks come to it, also one on which something has failed
            if failed is None:
                self.own.look()
                snapshot = snapshots.Snapshot(self.torch, self.own)  # before a loader draws its seed
                self.compare_rates(snapshot)
                if mode in (CACHED, COLD):
                    self.read_again(iterator, mode)
        except Exception as error:
            failed = error
        return snapshot, failed

    def meet(self, failed):
        """All ranks begin a block or none does: one that goes on with the training alone would exchange its gradients with those of
        the block, or wait for ever."""
        store = self.store()
        if store is None:
            if failed is not None:
                raise failed
            return
        rank, world = self.torch.distributed.get_rank(), self.torch.distributed.get_world_size()
        key, patience = f"{self.key(store)}/ready", datetime.timedelta(seconds=PATIENCE_S)
        store.set(f"{key}/{rank}", "" if failed is None else f"rank {rank}: {failed!r}")
        if rank == 0:
            keys = [f"{key}/{r}" for r in range(world)]
            try:
                store.wait(keys, patience)
                said = [text for text in (store.get(k).decode() for k in keys) if text]
            except Exception as error:
                said = [f"not every rank came: {error!r}"]
            store.set(key, "; ".join(said)[:200])
        store.wait([key], 2 * patience)
        why = store.get(key).decode()
        if why:
            raise snapshots.Refused(why)

    def compare_rates(self, snapshot):
        """A script that has no scheduler and changes its learning rates counts its steps."""
        before, self.rates = self.rates, [saved.get("lr") for _, saved in snapshot.groups]
        if before and before != self.rates and not snapshot.schedulers and not self.rated:
            self.rated = True
            self.note(
                "the script sets its learning rates by a count of its own, in which replayed steps count too: its weights will not be "
                "those of a training without --time"
            )

    def reveal(self):
        """The script takes weights out of the training: they are to be the training's own. One rank may do so alone, and must not
        leave a block in which others are: its steps go on from there, and are put back like all others."""
        if os.getpid() != self.pid:
            return  # a forked process is in no block
        if self.snapshot is None:
            if self.seconds:
                self.looks.add(self.trained)
            return
        when = (self.block, self.iterations, self.current.trained, self.current.steps)
        if when == self.revealed:
            return  # a copy of a model asks for each of its parameters
        from _leat_observe import lanes

        start = lanes.now()
        self.snapshot.restore()
        self.revealed = when
        lanes.lane().write(lanes.LOOK, start, lanes.now())

    def link(self):
        from _leat_observe import _part, lanes, once

        exchange = _part("exchange")
        exchange.told[:] = once.bucket_sizes
        models = [model for model in (found() for found in once.exchanging) if model is not None]
        store = self.store()
        exchange.measure(self.torch, lanes, self.seconds / 10, store, f"{self.key(store)}/links", models[-1:])

    def again(self):
        """A batch of the block."""
        self.iterations += 1
        if self.settling > 0 or self.busy() or not self.left:
            self.settling -= 1
            self.current.mode = self.running | WARMUP
        else:
            self.left -= 1
            self.current.mode = self.running | (WARMUP if self.spoiled else 0)
        return self.more()

    def more(self):
        """What fails here must not end the script, nor leave its ranks apart: the block goes on to its end, and does not count."""
        if self.reread is not None and not self.spoiled:
            try:
                return self.place(next(self.reread))
            except Exception as error:
                self.spoil(error)
        row = self.kept[(self.left + self.settling) % len(self.kept)]
        try:
            now = None if row[1] is None else versions(row[1], self.torch)
            if row[1] is None or now is None or now != row[2]:  # first, or the script has written into it
                row[1] = clone(row[0], self.torch)
                row[2] = versions(row[1], self.torch)
        except Exception as error:
            self.spoil(error)
            return row[0]
        return row[1]

    def spoil(self, error):
        if not self.spoiled:
            self.note(f"a block of steps could not be measured to its end: {error!r}")
        self.spoiled = True
        self.current.mode = self.running | WARMUP

    def busy(self):
        """Whether workers of the script still finish what they had begun: they take cores from the block. Those of all ranks are as
        busy as those of this one."""
        if self.reread is not None or self.store() is not None or not self.patience:
            return False
        iterator = self.last()
        number = getattr(iterator, "leat_number", 0)
        if time.monotonic() < self.patience and number and self.park.busy(number, self.workers):
            return True
        self.patience = 0
        return False

    def stop(self):
        """Ends a block: everything is as it was before it."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is None:
            return
        for module, backward, forward in self.exchange:
            module.require_backward_grad_sync, module.require_forward_param_sync = backward, forward
        self.drop_reread()
        snapshot.restore()
        if self.running == SINGLE:
            with contextlib.suppress(Exception):
                self.store().set(f"{self.key(self.store())}/done", "1")
        self.rest()

    def drop_reread(self):
        if self.reread is not None:
            with contextlib.suppress(Exception):  # its workers, which else end when it is collected
                self.reread._shutdown_workers()
            self.reread = self.loader = None

    def rest(self):
        """The script's own steps again, which settle first."""
        self.left = 0
        self.trained = 0
        self.rested = True
        self.settle = SETTLE + 2 * self.workers  # what they had finished, and a round of them that all begin at once
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
    atexit.register(replayer.explain)
    kind = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
    plain_shutdown = kind._shutdown_workers

    def shutdown(self):
        if not hasattr(self, "leat_reread"):
            replayer.park.open()  # else they would not hear of it
        plain_shutdown(self)

    kind._shutdown_workers = shutdown
    snapshots.follow_looks(torch, replayer.reveal)
    return replayer
