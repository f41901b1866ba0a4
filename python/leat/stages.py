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

from leat.errors import InvalidError

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
        self.lost = False  # an item was taken and cannot be handed over

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
        while not self.error and len(self.waiting) < self.depth:
            self.lost = True  # an interrupt may come at any line
            try:
                item = self.source.take(wait and not self.waiting)
            except Exception as error:  # an interrupt does not wait for its turn
                self.error = error
                item = None
            if item is not None:
                self.waiting.append(self.begin(item))
            self.settled()
            if item is None:
                break

    def take(self, wait):
        """What it returns counts as lost until settled() says that somebody has it."""
        self.fill(wait)
        if not self.waiting:
            if not self.error:
                return None
            error, self.error = self.error, None
            if isinstance(error, StopIteration):
                self.error = error  # it stays the end
            raise error
        if not wait and not self.ready(self.waiting[0]):
            return None
        self.lost = True
        return self.finish(self.waiting.popleft())

    def settled(self):
        """All that was taken is in good hands."""
        self.lost = False
        if self.below:
            self.below.settled()

    def pending(self):
        """Items that were taken from the loader and not handed over, or lost."""
        return bool(self.waiting) or self.lost or bool(self.below and self.below.pending())

    def drop(self):
        """Forgets what was read ahead."""
        while self.waiting:
            self.abandon(self.waiting.popleft())
        self.lost = False
        if self.below:
            self.below.drop()


class First:
    """The loader's own pass; remembers where its first batch began."""

    def __init__(self, source):
        self._source = source
        self._item = None  # the first, kept until its place is known
        self.place = None

    def take(self, wait):
        if self._item is None:
            self._item = self._source.take(wait)
        item = self._item
        if item is not None:
            self.place = (item.epoch, item.began)
            self._item = None
            self.take = self._source.take
        return item


class Reading:
    """A pass over a loader with stages: the iterator that the user has."""

    def __init__(self, keeper):
        self._keeper = keeper
        self._first = None
        self.source = None
        self.over = False

    def __iter__(self):
        return self

    def __next__(self):
        keeper = self._keeper
        if self.over:
            raise StopIteration
        if keeper.reading is not self:
            raise InvalidError("this pass is over: another one was begun by iter(loader)")
        if keeper.pid != os.getpid():  # a forked child: what was read ahead is the parent's
            keeper.pid = os.getpid()
            if self.source is not None:
                self.break_off()
        if self.source is None:
            self._first, self.source = keeper.chain()
        item = None
        try:
            item = self.source.take(True)
            values = item.values()
            state, place = item.state(), (item.epoch, item.position)
            remember(values, state)
            self.source.settled()
            keeper.state, keeper.place = state, place  # last: an interrupt before this has it delivered again
        except StopIteration:
            self.over = True
            keeper.again = False
            keeper.state = keeper.place = None  # the loader itself stands here
            raise
        except BaseException:
            self.break_off(item is not None)
            raise
        return values

    def break_off(self, taken=False):
        """After a failure: what was read ahead is dropped, and the loader goes back before it reads on."""
        place = self._keeper.place or self._first.place
        if place is None:
            self.source.settled()  # nothing was taken yet
        elif taken or self.source.pending():
            self.source.drop()
            self.source = None
            self._keeper.back = place


class Keeper:
    """Where the user of a loader with stages stands."""

    def __init__(self, core, stages):
        self._core = core
        self._stages = stages
        self.pid = os.getpid()
        self.reading = None
        self.state = None  # after the last batch handed over, as JSON; None: where the loader itself stands
        self.place = None  # the same, (epoch, position), in the pass under way
        self.again = False  # the next pass begins the same epoch again, if this one is broken off
        self.back = None  # the loader has read on, and must go back there before it reads again

    def begin(self):
        """Begins a pass. One that is under way is over."""
        if self.reading is not None and self.reading.source is not None:
            self.reading.source.drop()
        if self.again and self.place is not None:
            self.back = self.place[0], 0
        self.again = False
        self.place = None
        self.reading = Reading(self)
        return self.reading

    def chain(self):
        """The loader's own pass, and the last stage over it."""
        if self.back is not None:
            self._core.seek(*self.back)
            self.back = None
        if self.state is None:
            self.state = self._core.state()
        first = source = First(iter(self._core))
        for stage in self._stages:
            source = stage.over(source)
        return first, source

    def set_epoch(self, epoch):
        under_way = self.reading is not None and not self.reading.over and self.place is not None
        if under_way and self.place[0] == epoch and self.back is None:
            self.again = True  # the loader itself may be in the next epoch already
            return
        self._core.set_epoch(epoch)
        self.moved()

    def moved(self):
        """The loader was told to go elsewhere: what was read ahead is not wanted."""
        self.state = self.place = self.back = None
        self.again = False
        if self.reading is not None and self.reading.source is not None:
            self.reading.source.drop()
            self.reading.source = None

    def close(self):
        if self.reading is not None and self.reading.source is not None:
            self.reading.source.drop()
        self.reading = None
        for stage in self._stages:
            stage.close()
