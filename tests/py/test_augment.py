"""Augmentations: given what was drawn, the pixels are torchvision's."""

import numpy as np
import pytest
from augment import drawn_ops, pixels_of, run_ops, tensor_of, torchvision_v2
from test_image import photo

Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.every_case

# Where torchvision adds up in single precision in an order of its own, a sum may round to the next level; else nothing
# may differ. (words, largest difference, share of samples that may differ)
POINTWISE = [
    "brightness=0.4",
    "brightness=1.7",
    "contrast=0.35",
    "contrast=2.1",
    "saturation=0",
    "saturation=1.83",
    "hue=-0.5",
    "hue=0.07",
    "hue=0.313",
    "hue=-0.09",
    "grayscale=1",
    "invert=1",
    "equalize=1",
    "autocontrast=1",
    "solarize=0 p=1",
    "solarize=127.6 p=1",
    "posterize=0 p=1",
    "posterize=3 p=1",
    "sharpness=0 p=1",
    "sharpness=1.9 p=1",
    "erase=1 value=1:2:3",
    "cutout=30",
    "color_jitter=0.4:0.4:0.4:0.1",
    "brightness=1.4 solarize=100 p=1 contrast=0.7 equalize=1 posterize=5 p=1 autocontrast=1 invert=1",
]
NEAREST = [
    "rotate=33.7",
    "rotate=90",
    "rotate=180",
    "affine=12.5 translate=0.2:0.1 scale=0.8:1.2 shear=-20:20:-10:10",
    "affine=0 translate=0.3",
    "affine=0 shear=25",
    "perspective=0.5 p=1 interpolation=nearest",
]
SUMS = [
    "gaussian_blur=3 sigma=0.8",
    "gaussian_blur=23 sigma=0.1:2",
    "gaussian_blur=9 sigma=5",
    *[words.replace(" interpolation=nearest", "") + " interpolation=bilinear" for words in NEAREST],
]


@pytest.fixture
def augmented(run_leat, tmp_path):
    """augmented(image, words, seed) -> (pixels, operations)"""

    def run(image, words, seed=0, *args):
        source, out = tmp_path / "a.png", tmp_path / "out.png"
        image.save(source)
        done = run_leat("image", source, "-p", words, "--seed", seed, "-o", out, *args, status=0)
        return np.array(Image.open(out)), drawn_ops(done.stdout.splitlines()[1])

    return run


def pictures():
    """A photograph, one of odd size, one with few levels, one colour, saturated edges, grey."""
    yield photo(224, 224, seed=3)
    yield photo(157, 83, seed=4)
    yield photo(64, 48, seed=5).point(lambda v: v // 64 * 80)
    yield Image.new("RGB", (40, 50), (7, 200, 90))
    yield Image.fromarray(np.random.default_rng(6).integers(0, 256, (70, 61, 3), dtype=np.uint8))
    yield photo(90, 70, seed=8, mode="L")


def differences(augmented, words, fill=None, seeds=1, some=4):
    worst, differing, samples = 0, 0, 0
    for number, image in enumerate(pictures()):
        for seed in range(seeds if number % some in (0, 1) else 0):
            gray = " colour=gray" if image.mode == "L" else ""
            filling = f" fill={':'.join(map(str, fill))}" if fill else ""
            ours, ops = augmented(image, words + filling + gray, seed + 10 * number)
            assert ops, words
            fills = None if not fill else fill[:1] if image.mode == "L" else fill
            theirs = pixels_of(run_ops(tensor_of(np.asarray(image)), ops, fills))
            off = np.abs(ours.astype(int) - theirs.astype(int))
            worst, differing, samples = max(worst, int(off.max())), differing + int((off > 0).sum()), samples + off.size
    return worst, differing / samples


@pytest.mark.parametrize("words", POINTWISE)
def test_levels_are_torchvisions(augmented, words):
    torchvision_v2()
    assert differences(augmented, words) == (0, 0)


@pytest.mark.long
@pytest.mark.parametrize("words", POINTWISE + NEAREST + SUMS)
def test_every_picture(augmented, words):
    torchvision_v2()
    fill = (1, 2, 3) if words in NEAREST else None
    worst, share = differences(augmented, words, fill, seeds=10, some=2)
    assert (worst, share) == (0, 0) or (words in SUMS and worst <= 1 and share < 1e-3)


@pytest.mark.parametrize("fill", [None, (10, 200, 30)])
@pytest.mark.parametrize("words", NEAREST)
def test_moved_pixels_are_torchvisions(augmented, words, fill):
    torchvision_v2()
    assert differences(augmented, words, fill) == (0, 0)


@pytest.mark.parametrize("words", SUMS)
def test_sums_are_within_a_level_of_torchvisions(augmented, words):
    torchvision_v2()
    worst, share = differences(augmented, words, None if "blur" in words else (10, 200, 30))
    assert worst <= 1
    assert share < 1e-3
