"""Outputs of a loader: what each is made from.

fields={"x": leat.image("jpg").random_resized_crop(224).flip(), "y": leat.int("cls"), "key": leat.key()}
"""

from __future__ import annotations

import builtins
import json as _json
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leat import _arguments, _core
from leat.errors import InvalidError

if TYPE_CHECKING:
    from typing_extensions import Self

    from leat._types import DType, Numbers, Real, Size, Whole

_KINDS = _core.outputs()  # the library's own table
_VIEW_MAX = 255  # draws are numbered with eight bits


class Field:
    """One output of a loader. Made by leat.image, leat.int, leat.key and their like."""

    def __init__(
        self,
        kind: str,
        source: str | None = None,
        pipeline: str | None = None,
        view: builtins.int = 0,
        tuple: bool = False,
    ) -> None:
        self._kind = kind
        self._source = None if source is None else _arguments.text("field", source)
        self._pipeline = pipeline
        self._view = view
        self._tuple = tuple

    def _describe(self, name: str) -> tuple[str, builtins.int, str | None, str | None, builtins.int, bool]:
        return (name, _KINDS[self._kind][0], self._source, self._pipeline, self._view, self._tuple)

    if not TYPE_CHECKING:  # checkers know which methods there are

        def __getattr__(self, name):
            """Python finds no such method: perhaps another was meant."""
            near = "" if name.startswith("_") else _arguments.meant(name, (w for w in dir(self) if w[0] != "_"))
            raise AttributeError(f"leat.{self.__dict__.get('_kind', 'Field')}() has no {name!r}{near}")

    def __repr__(self) -> str:
        words = f": {self._pipeline}" if self._pipeline else ""
        _, _, _, dtype, shape = _KINDS[self._kind]
        return f"<leat.{self._kind}({self._source or ''}){words}; {dtype}; {shape}>"


class RaggedField(Field):
    """An output of any length per sample."""

    def ragged(self) -> Self:
        """As plain tensors, or arrays: (values, offsets), where sample i is values[offsets[i]:offsets[i + 1]].

        Values of bytes, text and keys are uint8; offsets are int64. Arrays in which more than the first dimension varies
        are flat in `values`, and where two do the tuple has their shapes too.
        """
        return type(self)(self._kind, self._source, self._pipeline, self._view, tuple=True)


def _whole(name: str, value: Whole, least: builtins.int = 0) -> str:
    return str(_arguments.whole(name, value, least))


def _real(name: str, value: Real) -> str:
    return repr(_arguments.real(name, value))


def _word(name: str, value: str) -> str:
    """One word of a pipeline, which has spaces between them."""
    word = _arguments.text(name, value)
    if not word or any(c.isspace() for c in word):
        _arguments.refuse(name, value, "a word", InvalidError)
    return word


def _size(size: Size) -> str:
    sides = _arguments.sequence(size)
    if sides is None:
        return _whole("size", size, 1)  # type: ignore[arg-type]
    if len(sides) != 2:
        _arguments.refuse("size", size, "one number, or (height, width)", InvalidError)
    height, width = sides
    return f"{_whole('width', width, 1)}x{_whole('height', height, 1)}"


def _numbers(name: str, values: Numbers) -> str:
    """One number or several, as a pipeline has them."""
    several: list[Any] | None = _arguments.sequence(values)
    return ":".join(_real(name, v) for v in several) if several is not None else _real(name, values)  # type: ignore[arg-type]


def _around(value: Numbers) -> Numbers:
    """torchvision's way with angles: one number d means (-d, d)."""
    if _arguments.sequence(value) is not None:
        return value
    number = _arguments.real("degrees", value)
    return (-number, number)


class Image(Field):
    """An image field and the steps from its encoded bytes to pixels. Every step returns a new object.

    Sizes are one number for a square, or (height, width) as in torch. A factor is one number, or (low, high) to draw from;
    `p` is the probability that something happens at all.
    """

    def __init__(self, source: str, view: builtins.int = 0, words: Sequence[str] = ()) -> None:
        super().__init__("image", source, " ".join(words), view)
        self._words = tuple(words)

    def _with(self, *words: str) -> Image:
        assert self._source is not None
        return Image(self._source, self._view, self._words + words)

    # Steps: which part of the picture, and its size. `leat image --words` lists all words with their ranges.

    def crop(self, top: Whole, left: Whole, height: Whole, width: Whole) -> Image:
        """This box, which must lie inside the picture."""
        size = f"{_whole('width', width, 1)}x{_whole('height', height, 1)}"
        return self._with(f"crop={size}+{_whole('left', left)}+{_whole('top', top)}")

    def resize(self, size: Size, limit: Whole = 0) -> Image:
        """Resizes to (height, width); one number is the shorter side, and the aspect ratio stays.

        limit: the most that the longer side may be, where one number is given; 0 is no limit.
        """
        most = _arguments.whole("limit", limit)
        return self._with(f"resize={_size(size)}", *([f"limit={most}"] if most else []))

    def longest(self, size: Whole) -> Image:
        """Resizes so that the longer side is this; the aspect ratio stays."""
        return self._with(f"longest={_whole('size', size, 1)}")

    def letterbox(self, size: Size) -> Image:
        """Resizes to fit inside, in the middle, with fill() around it."""
        return self._with(f"letterbox={_size(size)}")

    def scale_jitter(self, size: Size, scale: Numbers = (0.1, 2.0)) -> Image:
        """Large-scale jitter: resized by a random factor of what fits, then cut at random, or padded right and below."""
        return self._with(f"scale_jitter={_size(size)}", f"scale={_numbers('scale', scale)}")

    def center_crop(self, size: Size) -> Image:
        """Cuts out the middle; a smaller picture is padded with fill()."""
        return self._with(f"center_crop={_size(size)}")

    def random_crop(self, size: Size, padding: Whole = 0, border: str = "constant") -> Image:
        """Cuts out a box anywhere, after padding on every side; a smaller picture is refused.

        border: what the padding is: fill() ("constant"), or the picture's "edge", "reflect" or "symmetric".
        """
        pixels = _arguments.whole("padding", padding)
        words = [f"padding={pixels}", f"border={_word('border', border)}"] if pixels else []
        return self._with(f"random_crop={_size(size)}", *words)

    def random_resized_crop(self, size: Size, scale: Numbers = (0.08, 1.0), ratio: Numbers = (3 / 4, 4 / 3)) -> Image:
        """torchvision's RandomResizedCrop: a box of random area and aspect, resized.

        scale: of the box's area, as a share of the picture's. ratio: its width / height.
        """
        return self._with(
            f"random_resized_crop={_size(size)}",
            f"scale={_numbers('scale', scale)}",
            f"ratio={_numbers('ratio', ratio)}",
        )

    def flip(self, p: Real = 0.5) -> Image:
        """Mirrors left and right with probability p."""
        return self._with(f"flip={_real('p', p)}")

    def vflip(self, p: Real = 0.5) -> Image:
        """Turns upside down with probability p."""
        return self._with(f"vflip={_real('p', p)}")

    # Augmentations, after the steps and in the order in which they are called.

    def _effect(self, name: str, main: str, /, **parameters: str) -> Image:
        return self._with(f"{name}={main}", *(f"{key}={value}" for key, value in parameters.items()))

    def brightness(self, factor: Numbers, p: Real = 1.0) -> Image:
        """Levels times a factor; 1 changes nothing."""
        return self._effect("brightness", _numbers("factor", factor), p=_real("p", p))

    def contrast(self, factor: Numbers, p: Real = 1.0) -> Image:
        """Levels away from the mean luma by a factor; 1 changes nothing."""
        return self._effect("contrast", _numbers("factor", factor), p=_real("p", p))

    def saturation(self, factor: Numbers, p: Real = 1.0) -> Image:
        """Colours away from grey by a factor; 1 changes nothing."""
        return self._effect("saturation", _numbers("factor", factor), p=_real("p", p))

    def hue(self, by: Numbers, p: Real = 1.0) -> Image:
        """Turns the colours by -0.5 … 0.5 of the circle."""
        return self._effect("hue", _numbers("by", by), p=_real("p", p))

    def color_jitter(
        self, brightness: Real = 0.0, contrast: Real = 0.0, saturation: Real = 0.0, hue: Real = 0.0, p: Real = 1.0
    ) -> Image:
        """torchvision's ColorJitter: factors of 1 plus or minus these, hue of 0 plus or minus, in random order."""
        four = (brightness, contrast, saturation, hue)
        return self._effect("color_jitter", _numbers("color_jitter", four), p=_real("p", p))

    def grayscale(self, p: Real = 0.1) -> Image:
        """Grey in all three channels; gray() gives one channel."""
        return self._effect("grayscale", _real("p", p))

    def invert(self, p: Real = 0.5) -> Image:
        """255 minus the level."""
        return self._effect("invert", _real("p", p))

    def equalize(self, p: Real = 0.5) -> Image:
        """An even histogram of each channel."""
        return self._effect("equalize", _real("p", p))

    def autocontrast(self, p: Real = 0.5) -> Image:
        """Each channel stretched to 0 … 255."""
        return self._effect("autocontrast", _real("p", p))

    def solarize(self, threshold: Real, p: Real = 0.5) -> Image:
        """Inverts levels from the threshold on."""
        return self._effect("solarize", _real("threshold", threshold), p=_real("p", p))

    def posterize(self, bits: Whole, p: Real = 0.5) -> Image:
        """Keeps this many bits of each level."""
        return self._effect("posterize", _whole("bits", bits), p=_real("p", p))

    def sharpness(self, factor: Numbers, p: Real = 0.5) -> Image:
        """Away from a smoothed picture by a factor: 0 is smooth, 1 changes nothing, more is sharper."""
        return self._effect("sharpness", _numbers("factor", factor), p=_real("p", p))

    def gaussian_blur(self, kernel_size: Whole, sigma: Numbers = (0.1, 2.0), p: Real = 1.0) -> Image:
        """torchvision's GaussianBlur: kernel_size is an odd number of taps, sigma is in pixels."""
        size = _whole("kernel_size", kernel_size, 1)
        return self._effect("gaussian_blur", size, sigma=_numbers("sigma", sigma), p=_real("p", p))

    def rotate(self, degrees: Numbers, interpolation: str = "nearest", p: Real = 1.0) -> Image:
        """Counter-clockwise by (low, high); one number d is (-d, d)."""
        return self._effect(
            "rotate",
            _numbers("degrees", _around(degrees)),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def affine(
        self,
        degrees: Numbers,
        translate: Numbers = (0.0, 0.0),
        scale: Numbers = (1.0, 1.0),
        shear: Numbers = (0.0, 0.0, 0.0, 0.0),
        interpolation: str = "nearest",
        p: Real = 1.0,
    ) -> Image:
        """torchvision's RandomAffine: turned by degrees, moved by at most `translate` of width and height, scaled, sheared."""
        return self._effect(
            "affine",
            _numbers("degrees", _around(degrees)),
            translate=_numbers("translate", translate),
            scale=_numbers("scale", scale),
            shear=_numbers("shear", _around(shear)),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def perspective(self, distortion_scale: Real = 0.5, interpolation: str = "bilinear", p: Real = 0.5) -> Image:
        """torchvision's RandomPerspective: corners move inwards by at most this part."""
        return self._effect(
            "perspective",
            _real("distortion_scale", distortion_scale),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def erase(
        self, p: Real = 0.5, scale: Numbers = (0.02, 0.33), ratio: Numbers = (0.3, 3.3), value: Numbers = 0
    ) -> Image:
        """torchvision's RandomErasing, on levels of 0 … 255: before normalize() comes to it."""
        return self._effect(
            "erase",
            _real("p", p),
            scale=_numbers("scale", scale),
            ratio=_numbers("ratio", ratio),
            value=_numbers("value", value),
        )

    def cutout(self, size: Whole, value: Numbers = 0, p: Real = 1.0) -> Image:
        """A square of this side around any pixel of the picture."""
        return self._effect("cutout", _whole("size", size, 1), value=_numbers("value", value), p=_real("p", p))

    def rand_augment(
        self, num_ops: Whole = 2, magnitude: Whole = 9, bins: Whole = 31, interpolation: str = "nearest", p: Real = 1.0
    ) -> Image:
        """RandAugment: num_ops operations of this magnitude, of `bins` steps."""
        return self._effect(
            "rand_augment",
            _whole("num_ops", num_ops),
            magnitude=_whole("magnitude", magnitude),
            bins=_whole("bins", bins),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def trivial_augment(self, bins: Whole = 31, interpolation: str = "nearest", p: Real = 1.0) -> Image:
        """TrivialAugmentWide, with `bins` steps of strength."""
        return self._effect(
            "trivial_augment",
            _whole("bins", bins),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def auto_augment(self, policy: str = "imagenet", interpolation: str = "nearest", p: Real = 1.0) -> Image:
        """AutoAugment with the policy for "imagenet", "cifar10" or "svhn"."""
        return self._effect(
            "auto_augment",
            _word("policy", policy),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def augmix(
        self,
        severity: Whole = 3,
        width: Whole = 3,
        depth: Whole = 0,
        alpha: Real = 1.0,
        interpolation: str = "bilinear",
        p: Real = 1.0,
    ) -> Image:
        """AugMix: `width` chains of `depth` operations are mixed; depth 0 is 1 to 3, drawn for every chain."""
        return self._effect(
            "augmix",
            _whole("severity", severity),
            width=_whole("width", width),
            depth=_whole("depth", depth),
            alpha=_real("alpha", alpha),
            interpolation=_word("interpolation", interpolation),
            p=_real("p", p),
        )

    def three_augment(self, p: Real = 1.0, sigma: Numbers = (0.1, 2.0)) -> Image:
        """DeiT III's: one of grey, solarised and blurred."""
        return self._effect("three_augment", _real("p", p), sigma=_numbers("sigma", sigma))

    # What follows the picture: outputs of their own.

    def drawn(self) -> Field:
        """What was drawn for this image, 20 float32 numbers.

        Width and height of the picture, the crop's x, y, width and height, width and height of the output, flipped and
        upside down (0 or 1), the angle, and a 3 x 3 matrix from places in the picture to places in the output.
        """
        return Field("drawn", self._source, self._pipeline, self._view)

    def boxes(self, field: str) -> Field:
        """Boxes of a field, as they lie in this image: moved, cut and dropped with it.

        The field holds float32 (left, top, right, bottom) in pixels of the picture. A sequence of memoryviews;
        `np.frombuffer(v, "f4").reshape(-1, 5)` has a fifth column: which of the sample's boxes it is.
        """
        return Field("boxes", field, f"{self._pipeline} follow={self._source}", self._view)

    def follow(self, field: str) -> Image:
        """For a mask of another size: the draws and the crop are those of the image in `field`, in proportion."""
        return self._with(f"follow={_word('field', field)}")

    # The whole.

    def fill(self, colour: Numbers) -> Image:
        """The colour around a picture that is padded, rotated or moved: one number, or (r, g, b)."""
        return self._with(f"fill={_numbers('colour', colour)}")

    def filter(self, name: str) -> Image:
        """Resizing by "bilinear" (the default), "bicubic" or "nearest"."""
        return self._with(f"filter={_word('filter', name)}")

    def layout(self, name: str) -> Image:
        """The order of dimensions: "nhwc" (the default) or "nchw".

        With a loader's device="cuda" also "channels_last": (B, C, H, W) as convolutions like it best on a GPU,
        torch.channels_last.
        """
        return self._with(f"layout={_word('layout', name)}")

    def dtype(self, name: DType) -> Image:
        """ "uint8" (the default), "uint16", "float32", "float16" or "bfloat16"; torch's and numpy's dtypes too."""
        return self._with(f"dtype={_word('dtype', _arguments.dtype(name))}")

    def normalize(self, mean: Numbers, std: Numbers) -> Image:
        """(value / 255 - mean) / std, by channel: float32 unless dtype() names another float type; uint8 is refused."""
        return self._with(f"mean={_numbers('mean', mean)}", f"std={_numbers('std', std)}")

    def bits(self, n: Whole) -> Image:
        """8 (the default), or 16: nothing is cut off files of 16 bits on their way to floats. "uint16" has 16 anyway."""
        return self._with(f"bits={_whole('n', n)}")

    def gray(self) -> Image:
        """One channel of luma; grayscale() keeps three."""
        return self._with("colour=gray")

    def rgba(self) -> Image:
        """Four channels; what has no alpha is opaque."""
        return self._with("colour=rgba")

    def orientation(self, name: str) -> Image:
        """ "stored" (the default, as torchvision reads files) or "upright": turned as EXIF says."""
        return self._with(f"orientation={_word('orientation', name)}")

    def alpha(self, name: str, background: Numbers = 0) -> Image:
        """ "drop" (the default, as convert("RGB") does) or "blend": over the background, one number or (r, g, b)."""
        words = [f"alpha={_word('alpha', name)}"]
        if name == "blend":
            words.append(f"background={_numbers('background', background)}")
        elif _arguments.sequence(background) is not None or background != 0:
            raise InvalidError("a background needs alpha('blend'): dropped alpha leaves nothing under it")
        return self._with(*words)

    def animation(self, name: str) -> Image:
        """ "first" (the default): an animation's first frame is its picture; "error": such a file is refused."""
        return self._with(f"animation={_word('animation', name)}")

    def damage(self, name: str) -> Image:
        """Of a damaged file: "error" (the default), or "rows": those that are there, grey (128) for the rest."""
        return self._with(f"damage={_word('damage', name)}")

    def index(self) -> Image:
        """One channel as it is stored, palette numbers: for masks. Needs filter("nearest")."""
        return self._with("colour=index")

    def fast(self) -> Image:
        """Faster decoding that differs a little from the exact one; docs/prep.md says by how much."""
        return self._with("mode=fast")


class Sound(Field):
    """A field that holds WAV or FLAC files, as floats of -1 … 1. Every step returns a new object.

    With excerpt() an array of (channels, samples), or (channels, bands, frames) after mel(); without, sounds of any length: a
    sequence of memoryviews, `np.frombuffer(v, "f4").reshape(channels, -1)`.
    """

    def __init__(self, source: str, view: builtins.int = 0, words: Sequence[str] = ()) -> None:
        super().__init__("sound", source, " ".join(words), view)
        self._words = tuple(words)

    def _with(self, *words: str) -> Sound:
        assert self._source is not None
        return Sound(self._source, self._view, self._words + words)

    def resample(self, rate: Whole) -> Sound:
        """To this rate in Hz, as torchaudio.functional.resample does it."""
        return self._with(f"resample={_whole('rate', rate, 1)}")

    def channels(self, n: Whole = 1) -> Sound:
        """1 (the default) is the mean of all; another number is what every file has, or one channel for all."""
        return self._with(f"channels={_whole('n', n, 1)}")

    def excerpt(self, samples: Whole, place: str = "random") -> Sound:
        """This many samples at the new rate; silence follows a shorter sound.

        place: from a "random" place, the "middle" or the "begin".
        """
        return self._with(f"excerpt={_whole('samples', samples, 1)}", f"place={_word('place', place)}")

    def mel(
        self,
        bands: Whole,
        n_fft: Whole = 400,
        hop: Whole = 0,
        window: Whole = 0,
        low: Real = 0.0,
        high: Real = 0.0,
        power: Real = 2.0,
        scale: str = "htk",
        norm: str = "none",
        log: str = "none",
    ) -> Sound:
        """torchaudio.transforms.MelSpectrogram, which calls these n_mels, hop_length, win_length, f_min, f_max and mel_scale.

        log: "ln" or "db" of what is at least 1e-10. Needs resample().
        """
        return self._with(
            f"mel={_whole('bands', bands, 1)}",
            f"n_fft={_whole('n_fft', n_fft)}",
            f"hop={_whole('hop', hop)}",
            f"window={_whole('window', window)}",
            f"low={_real('low', low)}",
            f"high={_real('high', high)}",
            f"power={_real('power', power)}",
            f"scale={_word('scale', scale)}",
            f"norm={_word('norm', norm)}",
            f"log={_word('log', log)}",
        )

    def dtype(self, name: DType) -> Sound:
        """ "float32" (the default) or "float16"; torch's and numpy's dtypes too."""
        return self._with(f"dtype={_word('dtype', _arguments.dtype(name))}")


def sound(field: str, view: Whole = 0) -> Sound:
    """A sound. Outputs of the same view share their random draws."""
    return Sound(field, _arguments.whole("view", view, 0, _VIEW_MAX))


def image(field: str, view: Whole = 0) -> Image:
    """An image. Outputs of the same view share their random draws (an image and its mask); give two views of a
    sample different numbers, from 0 to 255."""
    return Image(field, _arguments.whole("view", view, 0, _VIEW_MAX))


def _number(name: str, value: Real) -> str:
    """A number as the library reads it: whole ones exactly."""
    try:
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return repr(_arguments.real(name, value, finite=False))  # arrays hold nan and inf too


def _words(dtype: DType | None = None, default: str | None = None) -> str | None:
    words = [f"dtype={_word('dtype', _arguments.dtype(dtype))}"] if dtype is not None else []
    return " ".join(words + ([f"default={default}"] if default is not None else [])) or None


class Values(RaggedField):
    """An array field or a tokens field.

    With one shape, its own or that of pad(), a batch has one array or tensor (batch, …). Without, it has a `Ragged`: a sequence
    of arrays on the batch's memory, with `.values`, `.offsets` and `.shapes` of all of them.
    """

    def pad(self, size: Size, value: Real = 0, cut: bool = False) -> Self:
        """To one shape: `size` is the length of the dimension that varies, or the whole shape.

        value: fills what is added. cut: a sample that is longer is cut off; else it is an error.
        """
        sizes = _arguments.sequence(size)
        shape = "x".join(_whole("size", n) for n in sizes) if sizes is not None else _whole("size", size)  # type: ignore[arg-type]
        cuts = _arguments.flag("cut", cut)
        words = [f"pad={shape}", f"value={_number('value', value)}", *(["cut"] if cuts else [])]
        return type(self)(self._kind, self._source, " ".join(words + ([self._pipeline] if self._pipeline else [])))


def int(field: str, dtype: DType = "int64", default: Whole | None = None) -> Field:
    """A whole number: int64, or another int type; a number that does not fit is an error of its sample.

    An optional field takes `default` where a sample has no value, or leat.has(field) as another output.
    """
    return Field("int", field, _words(dtype, None if default is None else _number("default", default)))


def float(field: str, dtype: DType = "float32", default: Real | None = None) -> Field:
    """A number: float32, or "float64", as which it is stored. `default` as for int()."""
    return Field("float", field, _words(dtype, None if default is None else _number("default", default)))


def bytes(field: str, default: builtins.bytes | bytearray | memoryview | None = None) -> RaggedField:
    """A field's bytes: a sequence of memoryviews. Any type of field that has bytes. `default` as for int(), of bytes."""
    if default is not None and not isinstance(default, (builtins.bytes, bytearray, memoryview)):
        _arguments.refuse("default", default, "bytes")
    return RaggedField("bytes", field, _words(default=None if default is None else memoryview(default).hex()))


def string(field: str, default: str | None = None) -> RaggedField:
    """A text: a sequence of str. `default` as for int(), a str."""
    return RaggedField(
        "string", field, _words(default=None if default is None else _arguments.text("default", default))
    )


_NOTHING: Any = object()


def json(field: str, default: Any = _NOTHING) -> Field:
    """What a JSON text says: a list of dicts, lists, str, numbers.

    `default` as for int(), anything that JSON has; None where there is none and leat.has(field) was asked for.
    """
    text = None
    if default is not _NOTHING:
        try:
            text = _json.dumps(default, allow_nan=False)
        except TypeError as error:
            _arguments.refuse("default", default, f"JSON: {error}")
        except ValueError as error:
            _arguments.refuse("default", default, f"JSON: {error}", InvalidError)
    return Field("json", field, _words(default=text))


def array(field: str, default: Real | None = None) -> Values:
    """An array of the field's dtype: (batch, …) where it has one shape or pad() gives it one, a Ragged else.

    `default` as for int(): a number that fills the one shape.
    """
    return Values("array", field, _words(default=None if default is None else _number("default", default)))


def tokens(field: str, dtype: DType | None = None, default: Whole | None = None) -> Values:
    """Tokens of the field's dtype (uint16, uint32 or int32), or a wider int type: a Ragged, or (batch, n) with pad(n)."""
    return Values("tokens", field, _words(dtype, None if default is None else _number("default", default)))


def length(field: str) -> Field:
    """How long a sample's value is, int64: tokens, bytes, or the dimension of an array that varies.

    (batch, k) where k of them do; 0 where there is no value.
    """
    return Field("length", field)


def has(field: str) -> Field:
    """Whether a sample has a value of an optional field: bool.

    Where it has not, numbers and pictures are 0, arrays empty or all padding, text and bytes empty.
    """
    return Field("has", field)


def key() -> RaggedField:
    """The sample's key, its original path: a sequence of str."""
    return RaggedField("key")


def index() -> Field:
    """The sample's number in the dataset: int64."""
    return Field("index")


def stream() -> Field:
    """Which stream of a mixture the sample comes from, numbered as they were given: int64."""
    return Field("stream")


def valid() -> Field:
    """False where a place is padding, or its sample could not be decoded and on_error is "skip".

    Whatever has one shape is another sample's of the batch there; index and what is ragged belong to the one that failed.
    """
    return Field("valid")
