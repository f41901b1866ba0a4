"""Random chains of what can happen to a job, over real loaders and a real agent, against a model of a few lines.

A chain opens a world of loaders in this process and then takes, breaks off, jumps, saves, resumes at another world, batch
size, node map and `last`, forks, kills the agent and replaces the dataset. The model knows the order of an epoch (read once
by a loader alone) and where the job stands; every global batch must be the next piece of that order, each sample
with the bytes of its version. A failure names the chain's number and what it did.
"""

import json
import os
import random
import signal
import time
import zlib

LAST = ("drop", "pad", "short")


class Versions:
    """Packings of different contents below one address, of which the pointer names one; {version: {key: crc}}."""

    def __init__(self, url, pointers, contents):
        self.url = url
        self.pointers = pointers  # name -> bytes of leat/current
        self.contents = contents  # name -> {key: crc of its bytes}

    def point_at(self, name):
        path = os.path.join(self.url, "leat", "current")
        with open(f"{path}.new", "wb") as file:
            file.write(self.pointers[name])
        os.replace(f"{path}.new", path)


class Orders:
    """The order of every epoch that a chain has asked for, as (index, key, crc), and which version has which id."""

    def __init__(self, leat, versions):
        self.leat = leat
        self.versions = versions
        self.known = {}
        self.ids = {}

    def fields(self):
        return {"i": self.leat.index(), "k": self.leat.key(), "b": self.leat.bytes("bin"), "v": self.leat.valid()}

    def id_of(self, name):
        if name not in self.ids:
            self.versions.point_at(name)
            with self.leat.Loader(self.versions.url, batch_size=1, fields=self.fields(), as_numpy=True) as loader:
                self.ids[name] = loader.version
        return self.ids[name]

    def of(self, name, seed, window, shuffle, epoch):
        at = (name, seed, window, shuffle, epoch)
        if at not in self.known:
            content = self.versions.contents[name]
            more = {"batch_size": len(content), "seed": seed, "window": window, "epoch": epoch, "shuffle": shuffle}
            with self.leat.Loader(
                self.versions.url, version=self.id_of(name), fields=self.fields(), as_numpy=True, **more
            ) as loader:
                samples = rows_of(next(iter(loader)))
            assert sorted(key for _, key, _ in samples) == sorted(content), f"epoch {at} is no permutation"
            assert shuffle or [index for index, _, _ in samples] == list(range(len(content))), "not shuffled, and mixed"
            assert all(content[key] == crc for _, key, crc in samples), f"epoch {at} has wrong bytes"
            self.known[at] = samples
        return self.known[at]


def rows_of(batch):
    """The places that count of a batch that was handed out."""
    i, k, b, v = batch
    return [(n, key, zlib.crc32(data)) for n, key, data, ok in zip(i.tolist(), k, b, v.tolist()) if ok]


class Chain:
    def __init__(self, orders, number, agents):
        self.leat = orders.leat
        self.orders = orders
        self.versions = orders.versions
        self.agents = agents  # () -> ids of the agents
        self.draw = random.Random(number)
        self.did = []
        self.loaders, self.passes = [], None
        self.saved = []  # (state, epoch, position)
        self.taken = 0  # batches of this pass
        self.marked = False  # set_epoch of this epoch came after the last batch: a new pass begins it again

    # What the model knows: where the job stands.

    @property
    def units(self):
        return len(self.versions.contents[self.name])

    def order(self):
        return self.orders.of(self.name, self.seed, self.window, self.shuffle, self.epoch)

    def left(self):
        """Batches left in this epoch."""
        rest = self.units - self.position
        return rest // self.batch if self.last == "drop" else -(-rest // self.batch)

    def next_epoch(self):
        self.go_to(self.epoch + 1, 0)

    def go_to(self, epoch, position):
        self.epoch, self.position, self.passes, self.taken, self.marked = epoch, position, None, 0, False

    def say(self, what):
        self.did.append(what)

    # Opening and closing

    def begin(self):
        self.name = self.draw.choice(list(self.versions.contents))
        self.seed = self.draw.choice([0, 1, 2**40])
        self.window = self.draw.choice([1, 3, None])
        self.shuffle = self.draw.random() < 0.8
        self.epoch, self.position = self.draw.choice([0, 0, 3]), 0
        self.orders.id_of(self.name)
        self.versions.point_at(self.name)
        self.open({"seed": self.seed, "window": self.window, "epoch": self.epoch})

    def open(self, more):
        self.close()
        world = self.draw.choice([1, 1, 2, 2, 3, 4, 6])
        self.batch = world * self.draw.choice([1, 2, 3, 5])
        self.last = self.draw.choice(LAST)
        local = self.draw.choice([None, 1, 2, 3, 4])
        more = {**more, "shuffle": self.shuffle}
        self.say(f"open world={world} batch={self.batch} last={self.last} local={local} {more}")
        if local is None:
            os.environ.pop("LOCAL_WORLD_SIZE", None)
        else:
            os.environ["LOCAL_WORLD_SIZE"] = str(local)
        for rank in range(world):
            self.loaders.append(
                self.leat.Loader(
                    self.versions.url,
                    fields=self.orders.fields(),
                    as_numpy=True,
                    rank=rank,
                    world_size=world,
                    global_batch_size=self.batch,
                    last=self.last,
                    **more,
                )
            )

    def close(self):
        for loader in self.loaders:
            loader.close()
        self.loaders, self.passes, self.taken = [], None, 0

    # What is looked at

    def check_step(self, pieces):
        """One global batch: the next piece of the order, each rank with its share of it."""
        expected = self.order()[self.position : self.position + self.batch]
        rows = [row for piece, _ in pieces for row in piece]
        assert sorted(rows) == sorted(expected), f"at {self.position} of epoch {self.epoch}: {rows} and not {expected}"
        share = self.batch // len(pieces)
        for rank, (piece, places) in enumerate(pieces):
            if self.last != "short":
                assert places == share, f"rank {rank} has {places} places of {share}"
            elif len(expected) >= len(pieces):
                assert piece, f"rank {rank} has nothing of {len(expected)}"
        self.position += len(expected)

    def read(self, passes, steps):
        """As many steps on every rank, in turn or one rank after the other; what each rank got, by step."""
        got = [[None] * len(passes) for _ in range(steps)]
        places = [(step, rank) for step in range(steps) for rank in range(len(passes))]
        if self.draw.random() < 0.5:
            places.sort(key=lambda at: at[1])
        for step, rank in places:
            batch = next(passes[rank])
            got[step][rank] = (rows_of(batch), len(batch[0]), self.leat.state_of(batch))
        return got

    def assert_end(self, passes):
        for rank, one in enumerate(passes):
            assert next(one, None) is None, f"rank {rank} has a batch more"

    # What may happen

    def start(self):
        if self.passes is None:
            if self.left() == 0:
                self.next_epoch()
            self.passes = [iter(loader) for loader in self.loaders]

    def take(self):
        self.start()
        steps = self.draw.randint(1, max(1, min(4, self.left())))
        self.say(f"take {steps} at {self.epoch}:{self.position}")
        for pieces in self.read(self.passes, steps):
            self.check_step([piece[:2] for piece in pieces])
            states = [piece[2] for piece in pieces]
            assert all(state == states[0] for state in states), "ranks have different states"
            self.saved.append((states[0], self.epoch, self.position))
        self.taken += steps
        self.marked = False
        if self.left() == 0:  # a pass that stopped at its last batch is finished
            if self.draw.random() < 0.5:
                self.assert_end(self.passes)
            self.next_epoch()

    def finish(self):
        self.start()
        steps = self.left()
        self.say(f"finish {steps} at {self.epoch}:{self.position}")
        for pieces in self.read(self.passes, steps):
            self.check_step([piece[:2] for piece in pieces])
        self.assert_end(self.passes)
        self.next_epoch()

    def break_off(self):
        if not self.taken:
            return
        self.say("break")
        if self.draw.random() < 0.3:
            self.mark()
        if self.marked:
            self.go_to(self.epoch, 0)
        else:
            self.next_epoch()

    def mark(self):
        """set_epoch of the epoch that a pass is in: that pass goes on, a new one begins the epoch again."""
        self.say(f"set_epoch {self.epoch} inside it")
        for loader in self.loaders:
            loader.set_epoch(self.epoch)
        self.marked = True

    def set_epoch(self):
        if self.taken and self.draw.random() < 0.5:
            self.mark()
            return
        epoch = self.draw.choice([e for e in range(6) if e != self.epoch])
        self.say(f"set_epoch {epoch}")
        for loader in self.loaders:
            loader.set_epoch(epoch)
        self.go_to(epoch, 0)

    def seek(self):
        self.go_to(self.draw.randint(0, 5), self.draw.randint(0, self.units - 1))
        self.say(f"seek {self.epoch}:{self.position}")
        for loader in self.loaders:
            loader.seek(self.epoch, self.position)
        self.maybe_same_epoch()

    def maybe_same_epoch(self):
        """After a jump into an epoch, set_epoch of that epoch and iterators that nobody uses change nothing."""
        if self.draw.random() < 0.5 and self.left():
            self.say(f"set_epoch {self.epoch}, iter")
            for loader in self.loaders:
                loader.set_epoch(self.epoch)
                iter(loader)

    def now(self):
        """The state that all ranks agree in, and where it stands."""
        states = [loader.state_dict() for loader in self.loaders]
        assert all(state == states[0] for state in states), f"ranks have different states: {states}"
        assert len(json.dumps(states[0])) < 1024
        at = states[0]["streams"][0]
        return states[0], at["epoch"], at["position"]

    def choose_state(self):
        if self.saved and self.draw.random() < 0.5:
            return self.draw.choice(self.saved)
        return self.now()

    def restore(self, state, epoch, position):
        for loader in self.loaders:
            loader.load_state_dict(state)
        self.go_to(*((epoch + 1, 0) if position == self.units else (epoch, position)))
        self.maybe_same_epoch()

    def load_here(self):
        chosen = self.choose_state()
        self.say(f"load {chosen[1]}:{chosen[2]}")
        self.restore(*chosen)

    def resume(self):
        chosen = self.choose_state()
        more = {"version": self.orders.id_of(self.name)}
        if self.draw.random() < 0.5:
            more.update(seed=self.seed, window=self.window)
        self.say(f"resume {chosen[1]}:{chosen[2]}")
        self.open(more)
        self.restore(*chosen)

    def kill(self):
        self.say("kill")
        for pid in self.agents():
            os.kill(pid, signal.SIGKILL)

    def replace(self):
        name = self.draw.choice(list(self.versions.contents))
        self.say(f"replace by {name}")
        self.versions.point_at(name)

    def fork(self):
        """A child goes on where its parent stands; what it reads is the same, and changes nothing here."""
        self.start()
        steps = min(3, self.left())
        self.say(f"fork, {steps} steps")
        mine, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                with os.fdopen(theirs, "w") as pipe:
                    got = [[next(one) for one in self.passes] for _ in range(steps)]
                    json.dump([[[rows_of(b), len(b[0])] for b in step] for step in got], pipe)
            except BaseException as error:
                print(f"chain: the child of a fork: {error!r}", flush=True)
            os._exit(0)
        os.close(theirs)
        with os.fdopen(mine) as pipe:
            got = json.loads(pipe.read() or "null")
        assert os.waitpid(pid, 0)[1] == 0
        assert got is not None, "the child of a fork failed"
        position = self.position
        for step in got:
            self.check_step([([tuple(row) for row in rows], places) for rows, places in step])
        self.position = position

    def run(self):
        ops = [(self.take, 6), (self.finish, 2), (self.break_off, 2), (self.set_epoch, 2), (self.seek, 2),
               (self.load_here, 2), (self.resume, 3), (self.kill, 1), (self.replace, 1), (self.fork, 1)]  # fmt: skip
        try:
            self.begin()
            for op in self.draw.choices([op for op, _ in ops], [w for _, w in ops], k=self.draw.randint(3, 9)):
                op()
            self.take()
        finally:
            self.close()


def run_chains(leat, versions, agents, numbers, seconds=None):
    """Runs chains by number, until all are done or the time is over; how many were run."""
    orders = Orders(leat, versions)
    began, count = time.monotonic(), 0
    for number in numbers:
        if seconds is not None and time.monotonic() - began > seconds:
            break
        chain = Chain(orders, number, agents)
        try:
            chain.run()
        except Exception as error:
            error.add_note(f"chain {number}: " + "; ".join(chain.did))
            raise
        count += 1
    return count
