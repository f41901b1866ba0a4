"""Outputs of a loader: what each is made from.

fields={"x": leat.image("jpg").random_resized_crop(224).flip(), "y": leat.int("cls"), "key": leat.key()}
"""

from __future__ import annotations

import builtins

from leat.errors import InvalidError

_IMAGE, _INT, _BYTES, _STRING, _KEY, _INDEX, _VALID = range(1, 8)
_VIEW_MAX = 255  # draws are numbered with eight bits


class Field:
    """One output. Made by the functions below."""

    def __init__(self, kind, source=None, pipeline=None, view=0):
        self._kind = kind
        self._source = source
        self._pipeline = pipeline
        self._view = view

    def _describe(self, name):
        return (name, self._kind, self._source, self._pipeline, self._view)


def _size(size):
    if isinstance(size, builtins.int):
        return str(size)
    height, width = size
    return f"{width}x{height}"


def _numbers(values):
    if isinstance(values, (builtins.int, float)):
        values = (values, values, values)
    return ":".join(repr(float(v)) for v in values)


class Image(Field):
    """An image field and the steps from its encoded bytes to pixels. Every step returns a new object.

    Sizes are one number for a square, or (height, width) as in torch.
    """

    def __init__(self, source, view=0, words=()):
        super().__init__(_IMAGE, source, " ".join(words), view)
        self._words = tuple(words)

    def _with(self, *words):
        return Image(self._source, self._view, self._words + words)

    def resize(self, size):
        """One number: the shorter side, the ratio stays; (height, width): exactly that."""
        return self._with(f"resize={_size(size)}")

    def center_crop(self, size):
        return self._with(f"center_crop={_size(size)}")

    def random_crop(self, size):
        return self._with(f"random_crop={_size(size)}")

    def random_resized_crop(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
        return self._with(
            f"random_resized_crop={_size(size)}",
            f"scale={scale[0]!r}:{scale[1]!r}",
            f"ratio={ratio[0]!r}:{ratio[1]!r}",
        )

    def flip(self, p=0.5):
        """Mirrors left and right with probability p."""
        return self._with(f"flip={p!r}")

    def filter(self, name):
        """Resizing by "bilinear" (the default), "bicubic" or "nearest"."""
        return self._with(f"filter={name}")

    def layout(self, name):
        """ "nhwc" (the default) or "nchw"."""
        return self._with(f"layout={name}")

    def dtype(self, name):
        """ "uint8" (the default), "float32", "float16" or "bfloat16"."""
        return self._with(f"dtype={name}")

    def normalize(self, mean, std):
        """(value / 255 - mean) / std, by channel: float32 unless dtype() names another float type; uint8 is refused."""
        return self._with(f"mean={_numbers(mean)}", f"std={_numbers(std)}")

    def gray(self):
        return self._with("colour=gray")

    def orientation(self, name):
        """ "stored" (the default, as torchvision reads files) or "upright": turned as EXIF says."""
        return self._with(f"orientation={name}")

    def alpha(self, name, background=0):
        """ "drop" (the default, as convert("RGB") does) or "blend": over the background, one number or (r, g, b)."""
        words = [f"alpha={name}"]
        if name == "blend":
            words.append(f"background={_numbers(background)}")
        elif background != 0:
            raise ValueError("a background needs alpha('blend'): dropped alpha leaves nothing under it")
        return self._with(*words)

    def animation(self, name):
        """ "first" (the default): an animation's first frame is its picture; "error": such a file is refused."""
        return self._with(f"animation={name}")

    def fast(self):
        """Faster decoding that differs a little from the exact one; docs/prep.md says by how much."""
        return self._with("mode=fast")


def image(field, view=0):
    """An image. Outputs of the same view share their random draws (an image and its mask); give two views of a
    sample different numbers, from 0 to 255."""
    if not isinstance(view, builtins.int) or isinstance(view, bool) or not 0 <= view <= _VIEW_MAX:
        raise InvalidError(f"view={view!r} is not a whole number from 0 to {_VIEW_MAX}")
    return Image(field, view)


def int(field):
    """A whole number: int64."""
    return Field(_INT, field)


def bytes(field):
    """A field's bytes as they are stored: a sequence of memoryviews."""
    return Field(_BYTES, field)


def string(field):
    """A text: a sequence of str."""
    return Field(_STRING, field)


def key():
    """The sample's key, its original path: a sequence of str."""
    return Field(_KEY)


def index():
    """The sample's number in the dataset: int64."""
    return Field(_INDEX)


def valid():
    """False where a place is padding, or its sample could not be decoded and on_error is "skip": image and ints there
    are another sample's of the batch, key, index, bytes and strings those of the one that failed."""
    return Field(_VALID)
