"""Random generators that transforms and collates draw from: found, and seeded before every call.

Those of the whole process (of random, numpy, torch, OpenCV, numba and C) are known by name. Libraries such as
albumentations, and the user, have generators of their own: they are found by following references from the user's
functions. The seed of a generator depends on the seed of the call and on its name or place alone, so that no two
generators draw the same numbers, and none depends on what its process did before.

A generator that draws although it was not found is reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import pickle
import random
import sys
import threading
import types

import numpy
import numpy.random.bit_generator as _numpy_seeding

from leat import _references

_WATCHED = frozenset(
    (1, 2, 16, 256, 4096)
)  # calls; in the loader's own process it takes 40 ms to look through all objects

# Why numbers of a library do not repeat.
_UNREACHED = (
    "Leat cannot reach its generator, so they depend on the worker and are others after a restart. Seed it inside the "
    "transform, from leat.sample_info().seed"
)
_LATE = (
    "a generator was made while a sample was worked on (at {}). It is seeded from now on; what it drew before depends on "
    "the worker. Make it before, at the top of the module or in __init__"
)
_IMPORTED = (
    "it was imported inside the transform, and is seeded from the next sample on. Import it at the top of the module"
)
_FAILS = "its generator cannot be seeded ({}). Seed it inside the transform, from leat.sample_info().seed"
_ENTROPY = (
    "this release of numpy seeds numpy.random.default_rng() in a way that Leat does not know. Give it a seed: "
    "leat.sample_info().seed"
)
_TENSORFLOW = (
    "Leat does not seed it, which takes TensorFlow milliseconds. Use its stateless operations, or call "
    "tf.random.set_seed(), with leat.sample_info().seed"
)
_TOO_MUCH = "it reaches more objects than Leat searches for generators. Seed generators of your own from leat.sample_info().seed"
# Libraries that draw, for names of files and the like, what no sample depends on.
_OWN_BUSINESS = frozenset(getattr(sys, "stdlib_module_names", ("tempfile",))) - {"random"}


class _Seeds(_numpy_seeding.ISpawnableSeedSequence):
    """Seeds a bit generator of numpy's in 3 us, where a SeedSequence takes 20, and children that it spawns as well."""

    def __init__(self, key):
        self._key = key
        self.n_children_spawned = 0

    def generate_state(self, n_words, dtype=numpy.uint32):
        dtype = numpy.dtype(dtype)
        data = hashlib.shake_128(self._key).digest(n_words * dtype.itemsize)
        return numpy.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)

    def spawn(self, n_children):
        first = self.n_children_spawned
        self.n_children_spawned += n_children
        return [_Seeds(_key(self._key, str(n))) for n in range(first, first + n_children)]


def _key(seed, name):
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=seed, digest_size=16).digest()


def _number(key, bits):
    return int.from_bytes(key, "little") & (1 << bits) - 1


# Kinds of generators: how each is seeded, and put back.


class _OfPython:
    def __init__(self, generator):
        self._generator = generator

    def seed(self, key):
        self._generator.seed(_number(key, 64))

    def state(self):
        return self._generator.getstate()

    def restore(self, state):
        self._generator.setstate(state)


class _OfNumpy:
    """A bit generator, for all Generators that draw from it."""

    def __init__(self, generator):
        self._generator = getattr(generator, "bit_generator", generator)

    def seed(self, key):
        self._generator.__init__(_Seeds(key))

    def state(self):
        seeds = getattr(self._generator, "seed_seq", None) or getattr(self._generator, "_seed_seq", None)
        return seeds, self._generator.state

    def restore(self, state):
        seeds, numbers = state
        if seeds is not None:
            with contextlib.suppress(NotImplementedError):  # a Philox with a key has none
                self._generator.__init__(seeds)  # its children are numbered on
        self._generator.state = numbers


class _OfNumpyLegacy:
    def __init__(self, generator):
        self._generator = generator

    def seed(self, key):
        try:
            self._generator.seed(_number(key, 32))
        except TypeError:  # a bit generator of another kind
            state = self._generator.get_state(legacy=False)
            fresh = type(self._generator._bit_generator)(_Seeds(key)).state
            self._generator.set_state({**state, **fresh, "has_gauss": 0, "gauss": 0.0})

    def state(self):
        return self._generator.get_state(legacy=False)

    def restore(self, state):
        self._generator.set_state(state)


class _OfTorch:
    def __init__(self, generator):
        self._generator = generator

    def seed(self, key):
        # torch.manual_seed() looks for GPUs each time. Of a CPU's seed torch takes the lower 32 bits.
        self._generator.manual_seed(_number(key, 63))

    def state(self):
        return self._generator.get_state()

    def restore(self, state):
        self._generator.set_state(state)

    def is_new(self):
        """Whether nothing has been drawn from it since it was made."""
        return _numbers(self) == _numbers(_OfTorch(type(self._generator)()))


class _OfNumba:
    """What compiled code draws from, by numpy.random and by random, in this thread."""

    def __init__(self, library):
        self._library = library
        self._states = (library.rnd_get_np_state_ptr, library.rnd_get_py_state_ptr)

    def seed(self, key):
        for n, pointer in enumerate(self._states):
            self._library.rnd_seed(pointer(), _number(key, 31) * 2 + n)

    def state(self):
        return [self._library.rnd_get_state(pointer()) for pointer in self._states]

    def restore(self, states):
        for pointer, state in zip(self._states, states):
            self._library.rnd_set_state(pointer(), state)

    def is_new(self):
        return all(at == len(numbers) for at, numbers in self.state())


class _OneWay:
    """A generator of the process whose state cannot be read: it cannot be put back."""

    def __init__(self, seed):
        self._seed = seed

    def seed(self, key):
        self._seed(_number(key, 31))

    def state(self):
        return None

    def restore(self, state):
        pass

    def is_new(self):
        return False  # nobody knows


def _kind_of(cls):
    """How generators of this class are seeded; None: it is none."""
    if issubclass(cls, random.Random):
        return None if issubclass(cls, random.SystemRandom) else _OfPython
    if issubclass(cls, (numpy.random.Generator, numpy.random.BitGenerator)):
        return _OfNumpy
    if issubclass(cls, numpy.random.RandomState):
        return _OfNumpyLegacy
    torch = sys.modules.get("torch")
    generator = getattr(torch, "Generator", None)
    return _OfTorch if generator is not None and issubclass(cls, generator) else None


def _process_wide():
    """(name, object, kind, what the kind is made of) of each generator that the process has one of."""
    yield "random", random._inst, _OfPython
    yield "numpy", numpy.random.mtrand._rand, _OfNumpyLegacy
    torch = sys.modules.get("torch")
    if hasattr(torch, "default_generator"):
        yield "torch", torch.default_generator, _OfTorch
    cv2 = sys.modules.get("cv2")
    if hasattr(cv2, "setRNGSeed"):
        yield "cv2", cv2.setRNGSeed, _OneWay
    numba = sys.modules.get("numba._helperlib")
    if hasattr(numba, "rnd_seed"):
        yield "numba", numba, _OfNumba
    with contextlib.suppress(OSError, AttributeError):
        yield "rand", ctypes.CDLL(None).srand, _OneWay  # of C: Pillow's effect_noise and effect_spread


def _drawn_from(generator):
    """What holds the numbers of a generator: several of numpy's may share one."""
    return getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", generator)


def _numbers(kind):
    """The state of a generator as bytes; None: it cannot be read."""
    try:
        return pickle.dumps(kind.state(), 5)
    except Exception:  # of a class of the user's
        return None


def _public(package):
    return "the program" if package in ("", "__main__", "__mp_main__") else package


def _owner(generator):
    """The library whose object holds a generator, or that it is of."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # else what holds it is not found
    try:
        return _holder(generator)
    finally:
        if frozen:
            gc.freeze()


def _holder(generator):
    passed = {"builtins", "collections", "leat", "numpy", "torch", "random"}
    holders, seen = [generator], set()
    for _ in range(4):
        seen.update(map(id, holders))
        above = [h for h in gc.get_referrers(*holders) if id(h) not in seen and not isinstance(h, types.FrameType)]
        for holder in above:
            name = holder.get("__name__") if type(holder) is dict and "__spec__" in holder else type(holder).__module__
            name = str(name).partition(".")[0]
            if name not in passed:
                return _public(name)
        holders = above
    return type(generator).__module__.partition(".")[0]


class _Entropy:
    """Takes the place of the operating system's entropy while a user's function runs, in its thread: a generator that is made
    there without a seed, by numpy.random.default_rng() or random.Random(), is seeded by the call."""

    def __init__(self):
        self._key = None
        self._thread = None
        self._randbits = getattr(_numpy_seeding, "randbits", None)
        self._seed = random.Random.seed

    def begin(self, key):
        self._key = key
        self._thread = threading.get_ident()

    def end(self):
        self._key = None

    def _next(self):
        """A key that was not there before; None outside of a call."""
        if self._key is None or self._thread != threading.get_ident():
            return None
        self._key = _key(self._key, "next")
        return self._key

    def replace(self):
        """False: this release of numpy takes its entropy from elsewhere."""

        def randbits(bits):
            key = self._next()
            return self._randbits(bits) if key is None else _number(hashlib.shake_128(key).digest(bits // 8 + 1), bits)

        def seed(generator, a=None, version=2):
            if a is None and not isinstance(generator, random.SystemRandom):
                key = self._next()
                a = None if key is None else _number(key, 64)
            self._seed(generator, a, version)

        random.Random.seed = seed
        if self._randbits is None:
            return False
        _numpy_seeding.randbits = randbits
        drawn = []
        for _ in range(2):
            self.begin(b"")
            drawn.append(numpy.random.SeedSequence().entropy)
        self.end()
        return drawn[0] == drawn[1]

    def put_back(self):
        random.Random.seed = self._seed
        if self._randbits is not None:
            _numpy_seeding.randbits = self._randbits


class Generators:
    """Whatever the functions in `roots`, {name: function}, may draw from."""

    def __init__(self, roots):
        self._roots = {name: function for name, function in roots.items() if function is not None}
        self._calls = 0
        self._modules = 0
        self._of_process = {}  # by name: (generator, its kind)
        self._found = {}  # by place: the same
        self._libraries = {}  # by place: whose it is
        self._inside = set()  # places that only the code of a library leads to; it is searched once
        self._late = {}  # by place: [kind, numbers it was seeded with] of generators that were made during a call
        self._watched = ()  # during a call: (generator, kind, numbers) of those that were not found
        self._notes = {}  # by library: what to report
        self._entropy = _Entropy()
        self._look_at_process(False)
        self._search()
        self._strangers = []  # (generator, kind) of those that gc.get_objects() does not list any more

    def _look_at_process(self, inside):
        """Finds the generators of libraries that were imported since, maybe inside a call."""
        self._modules = len(sys.modules)
        for name, generator, kind in _process_wide():
            if name in self._of_process:
                continue
            self._of_process[name] = generator, kind(generator)
            if inside and not self._of_process[name][1].is_new():
                self._note(name, _IMPORTED)

    def _search(self):
        """Finds generators that the functions reach. One that was known keeps its place."""
        first = not self._found and not self._calls
        reached, whole = _references.follow(self._roots, _kind_of, first)
        if not whole:
            self._note("the transform", _TOO_MUCH)
        known = {id(_drawn_from(generator)) for generator, _ in self._of_process.values()}
        before = {id(_drawn_from(generator)): place for place, (generator, _) in self._found.items()}
        found = {place: self._found[place] for place in self._inside if place in self._found}
        known |= {id(_drawn_from(generator)) for generator, _ in found.values()}
        for one in reached:
            numbers = id(_drawn_from(one.value))
            if numbers in known:
                continue
            known.add(numbers)
            place = before.get(numbers, one.place)
            while place in found:
                place += "'"
            if numbers in before:
                found[place] = self._found[place]
                continue
            found[place] = one.value, _kind_of(type(one.value))(one.value)
            self._libraries[place] = _public(one.library)
            if one.inside:
                self._inside.add(place)
            if self._calls:
                self._late[place] = [found[place][1], None]
        self._found = found
        self._late = {place: late for place, late in self._late.items() if self._is_at(place, late[0])}

    def _is_at(self, place, kind):
        return place in self._found and self._found[place][1] is kind

    def _others(self, objects):
        """(generator, kind) of those among some objects that are not known."""
        pairs = (*self._of_process.values(), *self._found.values())
        known = {id(_drawn_from(generator)) for generator, _ in pairs}
        kinds, others = {}, []
        for value in objects:
            cls = type(value)
            if cls not in kinds:
                kinds[cls] = _kind_of(cls)
            if kinds[cls] and id(_drawn_from(value)) not in known:
                known.add(id(_drawn_from(value)))
                others.append((value, kinds[cls](value)))
        return others

    def seed(self, seed):
        """Before a call."""
        if len(sys.modules) != self._modules:
            self._look_at_process(False)
        self._calls += 1
        seed = seed.to_bytes(8, "little")
        for pairs in (self._of_process, self._found):
            for place, (_, kind) in list(pairs.items()):
                try:
                    kind.seed(_key(seed, place))
                except Exception as error:  # of a class of the user's
                    del pairs[place]
                    self._note(self._libraries.get(place, place), _FAILS.format(f"{type(error).__name__}: {error}"))
        for late in self._late.values():
            late[1] = _numbers(late[0])
        if self._calls in _WATCHED:
            others = {id(other[0]): other for other in (*self._strangers, *self._others(gc.get_objects()))}
            self._watched = [(generator, kind, _numbers(kind)) for generator, kind in others.values()]
        self._entropy.begin(_key(seed, "entropy"))

    def check(self):
        """After a call: whether it drew from what was not seeded."""
        self._entropy.end()
        if len(sys.modules) != self._modules:
            self._look_at_process(True)
        drew = [(place, kind) for place, (kind, numbers) in self._late.items() if numbers and _numbers(kind) != numbers]
        if drew or self._calls in _WATCHED:
            self._search()
        for place, kind in drew:  # those that every call makes again are left out
            self._late.pop(place, None)
            if self._is_at(place, kind):
                self._note(self._libraries[place], _LATE.format(place))
        tensorflow = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
        if getattr(tensorflow, "_context_handle", None) is not None:  # it has worked
            self._note("tensorflow", _TENSORFLOW)
        if self._watched:
            watched, self._watched = self._watched, ()
            found = {id(_drawn_from(generator)) for generator, _ in self._found.values()}
            for generator, kind, numbers in watched:
                if id(_drawn_from(generator)) not in found and _numbers(kind) != numbers:
                    self._note(_owner(generator), _UNREACHED)

    def _note(self, library, why):
        if library not in _OWN_BUSINESS:
            self._notes.setdefault(library, [why, False])

    def take_notes(self):
        """{library: why its numbers do not repeat}: each once."""
        notes = {library: why for library, (why, told) in self._notes.items() if not told}
        for library in notes:
            self._notes[library][1] = True
        return notes

    def settle(self):
        """In a process that only runs these functions, or forks such processes, before its objects are frozen."""
        self._strangers = self._others(gc.get_objects())
        self._take_over_entropy()

    def _take_over_entropy(self):
        if not self._entropy.replace():
            self._note("numpy", _ENTROPY)

    @contextlib.contextmanager
    def kept(self):
        """The process's own draws continue as if nothing had been drawn in between."""
        states = []
        for _, kind in (*self._of_process.values(), *self._found.values()):
            with contextlib.suppress(Exception):  # of a class of the user's
                states.append((kind, kind.state()))
        self._take_over_entropy()
        try:
            yield
        finally:
            self._entropy.put_back()
            for kind, state in states:
                kind.restore(state)
