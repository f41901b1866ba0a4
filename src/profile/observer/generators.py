"""Random generators that a script has made for itself: `torch.Generator`, numpy's bit generators and `RandomState`, and
`random.Random`. A differential block draws from them as the script's own steps do, so their states are put back after it."""

import contextlib
import gc
import inspect
import itertools
import operator
import random
import sys
import threading


class Refused(RuntimeError):
    """Why there can be no differential runs, as a sentence."""

    def __repr__(self):
        return str(self)


def _of_kind(things, kind):
    """Those of exactly this type. There are a million things to ask: all of it runs in C."""
    return list(itertools.compress(things, map(operator.is_, map(type, things), itertools.repeat(kind))))


def _variables(frame):
    """The values of a running function's variables, which the garbage collector does not tell."""
    values = frame.f_locals
    found = list(values.values())
    # Before Python 3.13 the frame keeps a dict of them, and with it this step's tensors. The script may have asked for the same dict
    # with locals(): then it is the script's.
    mine = sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if mine and sys.getrefcount(values) <= 3:  # the frame's, ours, and the argument
        values.clear()
    return found


def _stack(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def _held_by_others():
    """What functions that run in other threads have in variables, and in attributes of what is in a variable."""
    found, own = [], threading.get_ident()
    for thread, top in sys._current_frames().items():
        if thread != own:
            for frame in _stack(top):
                # A module's variables belong to every thread.
                found += _variables(frame) if frame.f_code.co_flags & inspect.CO_OPTIMIZED else ()
    for thing in list(found):
        if type(thing) in (type(sys), type(_stack)):
            continue
        with contextlib.suppress(AttributeError):  # not every object has any
            found += object.__getattribute__(thing, "__dict__").values()
    return found


def _torch_generators(kind):
    """They are unknown to the garbage collector, and so are dicts and tuples of nothing but such things."""
    things = gc.get_referents(*gc.get_objects())
    for frame in _stack(sys._getframe()):
        things += _variables(frame)
    found = {}
    while things:
        found.update((id(each), each) for each in _of_kind(things, kind))
        inner = {
            id(each): each
            for container in (dict, tuple)
            for each in itertools.filterfalse(gc.is_tracked, _of_kind(things, container))
        }
        things = gc.get_referents(*inner.values())
    return list(found.values())


def _found(torch):
    """[(generator, how its state is taken, how it is put back)]."""
    numpy = sys.modules.get("numpy.random")
    ways = {
        random.Random: (lambda g: g.getstate(), lambda g, state: g.setstate(state)),
        torch.Generator: (lambda g: g.get_state(), lambda g, state: g.set_state(state)),
    }
    if numpy is not None:
        ways[numpy.BitGenerator] = (lambda g: g.state, lambda g, state: setattr(g, "state", state))
        # It keeps a number beside those of its bit generator.
        ways[numpy.RandomState] = (lambda g: g.get_state(legacy=False), lambda g, state: g.set_state(state))
    rows, told = [(each, *ways[torch.Generator]) for each in _torch_generators(torch.Generator)], {}
    for thing in gc.get_objects():
        kind = type(thing)
        if kind not in told:
            told[kind] = next((way for base, way in ways.items() if issubclass(kind, base)), None)
        if told[kind] and kind is not random.SystemRandom:  # which has no state
            rows.append((thing, *told[kind]))
    return rows


class Generators:
    """The states of all of them, to be put back as often as is asked for."""

    def __init__(self, torch):
        self.rows = []
        rows = _found(torch)
        others = set(map(id, _held_by_others())) if rows else ()
        for generator, take, put in rows:
            name = type(generator).__qualname__
            # Putting back what a thread has drawn meanwhile would make it draw the same numbers again.
            if id(generator) in others:
                raise Refused(f"another thread draws random numbers from a generator of its own ({name})")
            try:
                self.rows.append((generator, put, take(generator)))
            except Exception as error:
                raise Refused(f"the state of a random generator ({name}) cannot be kept: {error!r}") from error

    def restore(self):
        for generator, put, state in self.rows:
            put(generator, state)
