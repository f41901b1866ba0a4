"""Outputs of a loader: what each is made from.

fields={"x": leat.image("jpg").random_resized_crop(224).flip(), "y": leat.int("cls"), "key": leat.key()}
"""

from __future__ import annotations

import builtins

from leat.errors import InvalidError

_IMAGE, _INT, _BYTES, _STRING, _KEY, _INDEX, _VALID, _DRAWN, _BOXES, _SOUND = range(1, 11)
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
    """One number or several, as a pipeline has them."""
    if isinstance(values, (builtins.int, float)):
        return repr(float(values))
    return ":".join(repr(float(v)) for v in values)


def _around(value):
    """torchvision's way with angles: one number d means (-d, d)."""
    return (-value, value) if isinstance(value, (builtins.int, float)) else value


class Image(Field):
    """An image field and the steps from its encoded bytes to pixels. Every step returns a new object.

    Sizes are one number for a square, or (height, width) as in torch.
    """

    def __init__(self, source, view=0, words=()):
        super().__init__(_IMAGE, source, " ".join(words), view)
        self._words = tuple(words)

    def _with(self, *words):
        return Image(self._source, self._view, self._words + words)

    # Steps: which part of the picture, and its size. `leat image --words` lists all words with their ranges.

    def crop(self, top, left, height, width):
        """This box, which must lie inside the picture."""
        return self._with(f"crop={width}x{height}+{left}+{top}")

    def resize(self, size, limit=0):
        """One number: the shorter side, the ratio stays, the longer side at most `limit`; (height, width): that."""
        return self._with(f"resize={_size(size)}", *([f"limit={limit}"] if limit else []))

    def longest(self, size):
        """The longer side, the ratio stays."""
        return self._with(f"longest={size}")

    def letterbox(self, size):
        """Fitted inside, in the middle, fill() around it."""
        return self._with(f"letterbox={_size(size)}")

    def scale_jitter(self, size, scale=(0.1, 2.0)):
        """Large-scale jitter: resized by a random factor of what fits, then cut at random, or padded right and below."""
        return self._with(f"scale_jitter={_size(size)}", f"scale={_numbers(scale)}")

    def center_crop(self, size):
        return self._with(f"center_crop={_size(size)}")

    def random_crop(self, size, padding=0, border="constant"):
        """After padding on every side with fill() ("constant"), or with the picture's "edge", "reflect", "symmetric"."""
        return self._with(
            f"random_crop={_size(size)}", *([f"padding={padding}", f"border={border}"] if padding else [])
        )

    def random_resized_crop(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
        return self._with(
            f"random_resized_crop={_size(size)}",
            f"scale={_numbers(scale)}",
            f"ratio={_numbers(ratio)}",
        )

    def flip(self, p=0.5):
        """Mirrors left and right with probability p."""
        return self._with(f"flip={p!r}")

    def vflip(self, p=0.5):
        """Upside down with probability p."""
        return self._with(f"vflip={p!r}")

    # Augmentations, after the steps and in the order in which they are called. A factor is one number, or (low, high)
    # to draw from; p is the probability that it happens at all.

    def _effect(self, name, main, /, **parameters):
        return self._with(f"{name}={main}", *(f"{key}={value}" for key, value in parameters.items()))

    def brightness(self, factor, p=1.0):
        return self._effect("brightness", _numbers(factor), p=p)

    def contrast(self, factor, p=1.0):
        return self._effect("contrast", _numbers(factor), p=p)

    def saturation(self, factor, p=1.0):
        return self._effect("saturation", _numbers(factor), p=p)

    def hue(self, by, p=1.0):
        """Turns the colours by -0.5 … 0.5 of the circle."""
        return self._effect("hue", _numbers(by), p=p)

    def color_jitter(self, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0, p=1.0):
        """torchvision's ColorJitter: factors of 1 plus or minus these, hue of 0 plus or minus, in random order."""
        return self._effect("color_jitter", _numbers((brightness, contrast, saturation, hue)), p=p)

    def grayscale(self, p=0.1):
        """Grey in all three channels; gray() gives one channel."""
        return self._effect("grayscale", p)

    def invert(self, p=0.5):
        return self._effect("invert", p)

    def equalize(self, p=0.5):
        return self._effect("equalize", p)

    def autocontrast(self, p=0.5):
        return self._effect("autocontrast", p)

    def solarize(self, threshold, p=0.5):
        return self._effect("solarize", threshold, p=p)

    def posterize(self, bits, p=0.5):
        return self._effect("posterize", bits, p=p)

    def sharpness(self, factor, p=0.5):
        return self._effect("sharpness", _numbers(factor), p=p)

    def gaussian_blur(self, kernel_size, sigma=(0.1, 2.0), p=1.0):
        return self._effect("gaussian_blur", kernel_size, sigma=_numbers(sigma), p=p)

    def rotate(self, degrees, interpolation="nearest", p=1.0):
        """Counter-clockwise by (low, high); one number d is (-d, d)."""
        return self._effect("rotate", _numbers(_around(degrees)), interpolation=interpolation, p=p)

    def affine(
        self,
        degrees,
        translate=(0.0, 0.0),
        scale=(1.0, 1.0),
        shear=(0.0, 0.0, 0.0, 0.0),
        interpolation="nearest",
        p=1.0,
    ):
        """torchvision's RandomAffine."""
        return self._effect(
            "affine",
            _numbers(_around(degrees)),
            translate=_numbers(translate),
            scale=_numbers(scale),
            shear=_numbers(_around(shear)),
            interpolation=interpolation,
            p=p,
        )

    def perspective(self, distortion_scale=0.5, interpolation="bilinear", p=0.5):
        return self._effect("perspective", distortion_scale, interpolation=interpolation, p=p)

    def erase(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0):
        """torchvision's RandomErasing, on levels of 0 … 255: before normalize() comes to it."""
        return self._effect("erase", p, scale=_numbers(scale), ratio=_numbers(ratio), value=_numbers(value))

    def cutout(self, size, value=0, p=1.0):
        """A square of this side around any pixel of the picture."""
        return self._effect("cutout", size, value=_numbers(value), p=p)

    def rand_augment(self, num_ops=2, magnitude=9, bins=31, interpolation="nearest", p=1.0):
        return self._effect("rand_augment", num_ops, magnitude=magnitude, bins=bins, interpolation=interpolation, p=p)

    def trivial_augment(self, bins=31, interpolation="nearest", p=1.0):
        """TrivialAugmentWide."""
        return self._effect("trivial_augment", bins, interpolation=interpolation, p=p)

    def auto_augment(self, policy="imagenet", interpolation="nearest", p=1.0):
        """With the policy for "imagenet", "cifar10" or "svhn"."""
        return self._effect("auto_augment", policy, interpolation=interpolation, p=p)

    def augmix(self, severity=3, width=3, depth=0, alpha=1.0, interpolation="bilinear", p=1.0):
        """AugMix; depth 0 is 1 to 3, drawn for every chain."""
        return self._effect("augmix", severity, width=width, depth=depth, alpha=alpha, interpolation=interpolation, p=p)

    def three_augment(self, p=1.0, sigma=(0.1, 2.0)):
        """DeiT III's: one of grey, solarised and blurred."""
        return self._effect("three_augment", p, sigma=_numbers(sigma))

    # What follows the picture: outputs of their own.

    def drawn(self):
        """What was drawn for this image, 20 float32 numbers: width and height of the picture, the crop's x, y, width and
        height, width and height of the output, flipped and upside down (0 or 1), the angle, and a 3 x 3 matrix from places in
        the picture to places in the output."""
        return Field(_DRAWN, self._source, self._pipeline, self._view)

    def boxes(self, field):
        """Boxes that a field holds as float32 (left, top, right, bottom) in pixels of the picture, as they lie in this
        image: moved, cut and dropped with it. A sequence of memoryviews; `np.frombuffer(v, "f4").reshape(-1, 5)` has a fifth
        column: which of the sample's boxes it is."""
        return Field(_BOXES, field, f"{self._pipeline} follow={self._source}", self._view)

    def follow(self, field):
        """For a mask of another size: the draws and the crop are those of the image in `field`, in proportion."""
        return self._with(f"follow={field}")

    # The whole.

    def fill(self, colour):
        """The colour around a picture that is padded, rotated or moved."""
        return self._with(f"fill={_numbers(colour)}")

    def filter(self, name):
        """Resizing by "bilinear" (the default), "bicubic" or "nearest"."""
        return self._with(f"filter={name}")

    def layout(self, name):
        """ "nhwc" (the default) or "nchw"."""
        return self._with(f"layout={name}")

    def dtype(self, name):
        """ "uint8" (the default), "uint16", "float32", "float16" or "bfloat16"."""
        return self._with(f"dtype={name}")

    def normalize(self, mean, std):
        """(value / 255 - mean) / std, by channel: float32 unless dtype() names another float type; uint8 is refused."""
        return self._with(f"mean={_numbers(mean)}", f"std={_numbers(std)}")

    def bits(self, n):
        """8 (the default), or 16: nothing is cut off files of 16 bits on their way to floats. "uint16" has 16 anyway."""
        return self._with(f"bits={n}")

    def gray(self):
        return self._with("colour=gray")

    def rgba(self):
        """Four channels; what has no alpha is opaque."""
        return self._with("colour=rgba")

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

    def index(self):
        """One channel as it is stored, palette numbers: for masks. Needs filter("nearest")."""
        return self._with("colour=index")

    def fast(self):
        """Faster decoding that differs a little from the exact one; docs/prep.md says by how much."""
        return self._with("mode=fast")


class Sound(Field):
    """A field that holds WAV or FLAC files, as floats of -1 … 1. Every step returns a new object.

    With excerpt() an array of (channels, samples), or (channels, bands, frames) after mel(); without, sounds of any length: a
    sequence of memoryviews, `np.frombuffer(v, "f4").reshape(channels, -1)`.
    """

    def __init__(self, source, view=0, words=()):
        super().__init__(_SOUND, source, " ".join(words), view)
        self._words = tuple(words)

    def _with(self, *words):
        return Sound(self._source, self._view, self._words + words)

    def resample(self, rate):
        """To this rate in Hz, as torchaudio.functional.resample does it."""
        return self._with(f"resample={rate}")

    def channels(self, n=1):
        """1 (the default) is the mean of all; another number is what every file has, or one channel for all."""
        return self._with(f"channels={n}")

    def excerpt(self, samples, place="random"):
        """So many samples at the new rate, from a "random" place, the "middle" or the "begin"; silence follows a shorter
        sound."""
        return self._with(f"excerpt={samples}", f"place={place}")

    def mel(
        self,
        bands,
        n_fft=400,
        hop=0,
        window=0,
        low=0.0,
        high=0.0,
        power=2.0,
        scale="htk",
        norm="none",
        log="none",
    ):
        """torchaudio.transforms.MelSpectrogram, which calls these n_mels, hop_length, win_length, f_min, f_max and mel_scale;
        log is "ln" or "db" of what is at least 1e-10. Needs resample()."""
        return self._with(
            f"mel={bands}",
            f"n_fft={n_fft}",
            f"hop={hop}",
            f"window={window}",
            f"low={_numbers(low)}",
            f"high={_numbers(high)}",
            f"power={_numbers(power)}",
            f"scale={scale}",
            f"norm={norm}",
            f"log={log}",
        )

    def dtype(self, name):
        """ "float32" (the default) or "float16"."""
        return self._with(f"dtype={name}")


def _check_view(view):
    if not isinstance(view, builtins.int) or isinstance(view, bool) or not 0 <= view <= _VIEW_MAX:
        raise InvalidError(f"view={view!r} is not a whole number from 0 to {_VIEW_MAX}")


def sound(field, view=0):
    """A sound. Outputs of the same view share their random draws."""
    _check_view(view)
    return Sound(field, view)


def image(field, view=0):
    """An image. Outputs of the same view share their random draws (an image and its mask); give two views of a
    sample different numbers, from 0 to 255."""
    _check_view(view)
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
