"""Stages between the agent's batches and the user: transforms in Python, copies to a GPU.

A stage reads ahead of the user. What it reads from is a *source*: the loader's own pass (leat._core.Pass), or the stage before
it. A source has one method that matters:

    take(wait) -> item, None (nothing is there yet, and it was not to wait), or StopIteration at the end of the epoch

and an item has values() (what the user gets), state() (the loader's state after it, JSON), epoch, began and position (in the
order, before and after it) and release().
Stages start no threads: they look after their work when the user asks for a batch.

A loader with stages stands where its *user* stands, and not where its stages have read to: state_dict() is the state of the
last item handed over, and after a failure the loader goes back to it, so that nothing is lost.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from leat import _core
from leat.errors import BusyError, InvalidError

_HANDED = deque(maxlen=256)  # (state, weak references to the columns) of the batches that stages handed over last


def remember(values, state):
    """So that leat.state_of() finds the state of a batch that no longer lies in the ring."""
    if type(values) is tuple:  # nearly always; asking whether something is a Mapping takes longer than all the rest
        columns = values
    elif isinstance(values, Mapping):
        columns = values.values()
    else:
        columns = values if isinstance(values, (tuple, list)) else (values,)
    try:
        references = [weakref.ref(column) for column in columns]
    except TypeError:  # numbers, text, lists: nothing that could be told from another
        references = [weakref.ref(column) for column in columns if type(column).__weakrefoffset__]
    if references:
        _HANDED.append((state, references))


def remembered(column):
    """The state after the batch that a column is of; None: not known."""
    for state, references in reversed(_HANDED):
        if column is not None and any(reference() is column for reference in references):
            return state
    return None


class Ahead:
    """One pass of a stage that works on up to `depth` items ahead of the user. Subclasses say how work on an item begins."""

    def __init__(self, source, depth):
        self.source = source
        self.below = source if isinstance(source, Ahead) else None
        self.depth = depth
        self.waiting = deque()  # what begin() returned, oldest first
        self.error = None  # of the source, to be raised when all before it was handed over
        self.over = False  # the source has no more

    def begin(self, item):
        """Starts to work on an item; returns what finish() takes. A failure leaves nothing after."""
        raise NotImplementedError

    def ready(self, work):
        """Whether finish() would not wait."""
        return True

    def finish(self, work):
        """The item for the next stage, or the user. May wait."""
        raise NotImplementedError

    def abandon(self, work):
        """Nobody will ask for this one."""

    def fill(self, wait):
        """Takes what is there, up to the depth; waits only for the first."""
        while not self.over and not self.error and len(self.waiting) < self.depth:
            try:
                item = self.source.take(wait and not self.waiting)
            except StopIteration:
                self.over = True
                break
            except Exception as error:  # an interrupt does not wait for its turn
                self.error = error
                break
            if item is None:
                break
            self.waiting.append(self.begin(item))

    def take(self, wait):
        self.fill(wait)
        if not self.waiting:
            if self.error:
                raise self._failure()
            if self.over:
                raise StopIteration
            return None
        if not wait and not self.ready(self.waiting[0]):
            return None
        return self.finish(self.waiting.popleft())

    def _failure(self):
        """Not kept by the frame that raises it: what lies in the frames of its traceback, batches for example, would go only with
        the next garbage collection."""
        error, self.error = self.error, None
        return error

    def drop(self):
        """Forgets what was read ahead."""
        while self.waiting:
            self.abandon(self.waiting.popleft())
        if self.below:
            self.below.drop()


class Stand(NamedTuple):
    """Where the user of a loader with stages stands. One object, so that an exception cannot leave half of it changed."""

    state: str | None = None  # after the last batch handed over, as JSON; None: where the loader itself stands
    reading: Reading | None = None  # which handed it over
    place: tuple[int, int] | None = None  # the same in the order: (epoch, position)
    back: tuple[int, int] | None = None  # the loader has read on, and must go back there before it reads again


class Reading(_core.Handover):
    """A pass over a loader with stages: the iterator that the user has."""

    def __init__(self, keeper):
        self._keeper = keeper
        self._pass = None  # the loader's own
        self.source = None
        self.over = False

    def step(self):
        """The next batch, and where the user stands who has it: which is not before this has returned."""
        keeper = self._keeper
        if self.over:
            self._end()
            raise StopIteration
        if keeper.reading is not self:
            self.lost = False
            raise InvalidError("this pass is over: another one was begun by iter(loader)")
        if keeper.pid != os.getpid():  # a forked child: what was read ahead is the parent's
            keeper.pid = os.getpid()
            self.go_back()
        if self.source is None:
            self._pass, self.source = keeper.chain()
        try:
            item = self.source.take(True)
            values, state = item.values(), item.state()
            remember(values, state)
            return values, keeper, Stand(state, self, (item.epoch, item.position))
        except StopIteration as end:
            if not self.source.over or self._is_ahead():
                self.recover()
                raise RuntimeError(
                    "StopIteration was raised by a transform, or by something that it has returned"
                ) from end
            self.over = True
            self._end()
            raise
        except BaseException:
            self.recover()
            raise

    def _end(self):
        if self._keeper.reading is self:
            self._keeper.handed = Stand()  # the loader itself stands there
        self.source = None
        self.lost = False

    def _is_ahead(self):
        """Whether the loader has read on from where the user stands."""
        return self._pass.stands is not None and self._pass.stands != self._keeper.place

    def recover(self):
        """After a failure. Whatever interrupts it, the next call does the rest."""
        if not self.over:
            self.go_back()
        self.lost = False

    def go_back(self):
        """If the loader has read ahead of the user, that is dropped, and the loader goes back before it reads on."""
        keeper = self._keeper
        if self.source is None or not self._is_ahead():
            return
        if keeper.reading is self:
            keeper.handed = keeper.handed._replace(back=keeper.place or self._pass.first)
        self.source.drop()
        self.source = None


class Keeper:
    """What becomes of a loader with stages from one pass to the next."""

    def __init__(self, core, stages):
        self._core = core
        self._stages = stages
        self.pid = os.getpid()
        self.reading = None
        self.handed = Stand()
        self.again = False  # the next pass begins the same epoch again, if this one is broken off

    @property
    def state(self):
        return self.handed.state

    @property
    def place(self):
        """In the pass under way."""
        return self.handed.place if self.handed.reading is self.reading else None

    @property
    def epoch(self):
        """Of the next batch; None: the loader's own."""
        place = self.place or self.handed.back
        return place[0] if place else None

    def _check_idle(self):
        if self.reading is not None and self.reading.busy:
            raise BusyError("the loader is in use by another thread")

    def begin(self):
        """Begins a pass. One that is under way is over."""
        self._check_idle()
        before = self.reading
        if before is not None and before.lost:
            before.recover()
        if before is not None and before.source is not None:
            before.lost = True  # if this is interrupted, and the pass goes on
            before.source.drop()
        if self.again and self.place is not None:
            self.handed = self.handed._replace(back=(self.place[0], 0))
        self.again = False
        self.reading = Reading(self)
        return self.reading

    def chain(self):
        """The loader's own pass, and the last stage over it."""
        if self.handed.back is not None:
            self._core.seek(*self.handed.back)
            self.handed = self.handed._replace(back=None)
        if self.state is None:
            self.handed = Stand(self._core.state())
        first = source = iter(self._core)
        for stage in self._stages:
            source = stage.over(source)
        return first, source

    def set_epoch(self, epoch):
        under_way = self.reading is not None and not self.reading.over and self.place is not None
        if under_way and self.place[0] == epoch and self.handed.back is None:
            self.again = True  # the loader itself may be in the next epoch already
            return
        self.move(self._core.set_epoch, epoch)

    def move(self, call, *to):
        """Has the loader go elsewhere. It stays where the user stands if that fails."""
        self._check_idle()
        if self.reading is not None:
            self.reading.go_back()
        call(*to)
        if self.reading is not None and self.reading.source is not None:
            self.reading.source.drop()
            self.reading.source = None
        self.again = False
        self.handed = Stand()

    def close(self):
        self._check_idle()
        if self.reading is not None and self.reading.source is not None:
            self.reading.source.drop()
        self.reading = None
        for stage in self._stages:
            stage.close()
