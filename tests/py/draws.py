"""Transforms that draw random numbers, as libraries and users do it. Workers import them from here.

A source is a function without arguments that draws: what it returns must depend on nothing but the sample. DRAWS are always
there; draws_torch.py and draws_more.py have those of packages that take long to import or are not always installed.
"""

import functools
import os
import random
import zlib

import numpy
from PIL import Image

SHARED = numpy.random.default_rng(7)
STATE = random.Random(7)


class Own:
    """Generators of its own in every object, made without a seed, as albumentations 2 has them."""

    def __init__(self, parts=()):
        self.parts = parts
        self.random_generator = numpy.random.default_rng()
        self.py_random = random.Random()

    def draw(self):
        return [
            self.random_generator.random(),
            self.py_random.random(),
            *(x for part in self.parts for x in part.draw()),
        ]


class OfClass:
    """One generator for all objects of a class, as monai has it."""

    R = numpy.random.RandomState()

    def draw(self):
        return [self.R.random(), self.R.normal()]


class Slots:
    __slots__ = ("generator",)

    def __init__(self):
        self.generator = numpy.random.Generator(numpy.random.MT19937(3))

    def draw(self):
        return [self.generator.random()]


def closure():
    generator = numpy.random.Generator(numpy.random.SFC64(3))
    return lambda: [generator.random()]


@functools.lru_cache
def cached():
    return numpy.random.Generator(numpy.random.Philox(key=3))


cached()
OWN = Own([Own(), Own()])
OF_CLASS, SLOTS, CLOSURE = OfClass(), Slots(), closure()
BOUND = numpy.random.default_rng(9).normal
LEGACY = numpy.random.RandomState(numpy.random.PCG64(3))


def crc(data):
    return [zlib.crc32(data) / 2**32]


DRAWS = {
    "random": lambda: [random.random(), random.gauss(0, 1)],
    "numpy": lambda: [numpy.random.random(), numpy.random.normal()],
    "numpy Generator": lambda: [SHARED.random()],
    "numpy Generator, spawned": lambda: [g.random() for g in SHARED.spawn(2)] if hasattr(SHARED, "spawn") else [],
    "numpy Generator without a seed": lambda: [numpy.random.default_rng().random()],
    "random.Random": lambda: [STATE.random()],
    "random.Random without a seed": lambda: [random.Random().random()],
    "objects with their own": OWN.draw,
    "class with its own": OF_CLASS.draw,
    "slots": SLOTS.draw,
    "closure": CLOSURE,
    "cache": lambda: [cached().random()],
    "bound method": lambda: [BOUND()],
    "RandomState of another kind": lambda: [LEGACY.random(), LEGACY.normal()],
    "Pillow": lambda: crc(Image.effect_noise((4, 4), 60).tobytes()),
}


def all_of(draws, sample):
    """The index of a sample, and what is drawn for it."""
    (index,) = sample
    return index, numpy.array([x for draw in draws.values() for x in draw()])


def transform(sample):
    return all_of(DRAWS, sample)


def collate(samples):
    """What collate draws too."""
    index, drawn = zip(*samples)
    return numpy.array(index), numpy.array(drawn), numpy.array([x for draw in DRAWS.values() for x in draw()])


def fails_at_7(sample):
    (index,) = sample
    if index == 7:
        raise ValueError("bad")
    return index, numpy.float64(random.random())


# What cannot be reached, or only later.


class Lazy:
    """Makes its generator when it first needs one, from something of the process."""

    generator = None

    def __call__(self, sample):
        if self.generator is None:
            self.generator = numpy.random.default_rng(os.getpid())
        return self.generator.random()


class Reseeds:
    """Does by itself what is needed."""

    def __call__(self, sample):
        import leat

        self.generator = numpy.random.default_rng(leat.sample_info().seed)
        return self.generator.random()


def hidden(sample):
    import library_that_hides

    return library_that_hides.draw()


def imports(sample):
    import late_library

    return late_library.draw()
