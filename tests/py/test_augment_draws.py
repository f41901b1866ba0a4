"""What is drawn: operations of policies give torchvision's pixels, and parameters have torchvision's distributions."""

import math

import numpy as np
import pytest
from augment import drawn_ops, pixels_of, run_ops, tensor_of, torchvision_v2
from test_image import photo

Image = pytest.importorskip("PIL.Image")

DRAWS = 20000
# A distance this large between two samples of that size comes by chance once in ten thousand (Kolmogorov and Smirnov).
LIMIT = 2.225 * math.sqrt(2 / DRAWS)


@pytest.mark.parametrize(
    "words",
    [
        "rand_augment=3",
        "rand_augment magnitude=25 interpolation=bilinear",
        "trivial_augment",
        "auto_augment",
        "auto_augment=cifar10",
        "auto_augment=svhn fill=9:8:7",
        "augmix=10",
        "three_augment",
    ],
)
def test_a_policys_operations_are_torchvisions(run_leat, tmp_path, words):
    torchvision_v2()
    image, count = photo(96, 80, seed=2), 40
    image.save(tmp_path / "a.png")
    done = run_leat("image", tmp_path / "a.png", "-p", words, "-n", count, "-o", tmp_path / "out.png", status=0)
    sheet, lines = np.array(Image.open(tmp_path / "out.png")), done.stdout.splitlines()[1:]
    fill = [9, 8, 7] if "fill" in words else None
    exact = "bilinear" not in words and "augmix" not in words and "three" not in words
    kinds = set()
    for number, line in enumerate(lines):
        ops = drawn_ops(line)
        kinds |= {op[0] for op in ops}
        ours = sheet[:, number * 100 : number * 100 + 96].astype(int)
        theirs = pixels_of(run_ops(tensor_of(np.asarray(image)), ops, fill)).astype(int)
        off = np.abs(ours - theirs)
        assert (off > 0).mean() < 0.005, line
        # One level off before a step in levels (posterize, equalize …) may be many after it.
        if exact or len(ops) <= 1:
            assert off.max() <= (0 if exact else 1), line
    assert len(kinds) >= 3


def samples(run_leat, path, words):
    """DRAWS lists of operations: two files of half as many draws."""
    done = run_leat("image", path, path, "-p", words, "-n", DRAWS // 2, status=0)
    return [drawn_ops(line) for line in done.stdout.splitlines() if line.startswith("  draw")]


def distance(a, b):
    both = np.sort(np.concatenate([a, b]))
    ranks = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (a, b)]
    return np.abs(ranks[0] - ranks[1]).max()


@pytest.fixture
def path(tmp_path):
    photo(24, 20).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def theirs_of(transform, size=(20, 24)):
    import torch

    torch.manual_seed(5)
    image = torch.zeros((3, *size), dtype=torch.uint8)
    return [transform.make_params([image]) for _ in range(DRAWS)]


def columns_agree(ours, theirs):
    # Rounded, so that an error in the last place does not tell equal numbers apart.
    ours, theirs = np.round(np.array(ours, dtype=float), 6), np.round(np.array(theirs, dtype=float), 6)
    for column in range(ours.shape[1]):
        assert distance(ours[:, column], theirs[:, column]) < LIMIT, column


def test_color_jitter(run_leat, path):
    v2 = torchvision_v2()
    names = ["brightness", "contrast", "saturation", "hue"]
    ours = []
    for ops in samples(run_leat, path, "color_jitter=0.4:1.3:0.2:0.1"):
        found = {op[0]: (place, op[1][0]) for place, op in enumerate(ops)}
        ours.append([found[n][k] for n in names for k in (0, 1)])
    theirs = []
    for p in theirs_of(v2.ColorJitter(0.4, 1.3, 0.2, 0.1)):
        order = p["fn_idx"].tolist()
        theirs.append([v for i, n in enumerate(names) for v in (order.index(i), p[f"{n}_factor"])])
    columns_agree(ours, theirs)


@pytest.mark.long
def test_affine_and_rotation(run_leat, path):
    v2 = torchvision_v2()
    ours = [
        ops[0][1][:6] for ops in samples(run_leat, path, "affine=-30:30 translate=0.1:0.3 scale=0.5:2 shear=-9:9:1:5")
    ]
    transform = v2.RandomAffine(30, translate=(0.1, 0.3), scale=(0.5, 2), shear=(-9, 9, 1, 5))
    theirs = [[p["angle"], *p["translate"], p["scale"], *p["shear"]] for p in theirs_of(transform)]
    columns_agree(ours, theirs)
    ours = [[-ops[0][1][0]] for ops in samples(run_leat, path, "rotate=-10:40")]
    columns_agree(ours, [[p["angle"]] for p in theirs_of(v2.RandomRotation((-10, 40)))])


@pytest.mark.long
def test_perspective(run_leat, path):
    v2 = torchvision_v2()
    ours = [ops[0][1] for ops in samples(run_leat, path, "perspective=0.6 p=1")]
    columns_agree(ours, [p["coefficients"] for p in theirs_of(v2.RandomPerspective(0.6, p=1))])


def test_erasing_and_blur(run_leat, path):
    v2 = torchvision_v2()
    ours = [ops[0][1][:4] for ops in samples(run_leat, path, "erase=1") if ops]
    theirs = [[p["j"], p["i"], p["w"], p["h"]] for p in theirs_of(v2.RandomErasing(1)) if p["v"] is not None]
    assert abs(len(ours) - len(theirs)) < 5 * math.sqrt(DRAWS)
    size = min(len(ours), len(theirs))
    columns_agree(ours[:size], theirs[:size])
    ours = [[ops[0][1][1]] for ops in samples(run_leat, path, "gaussian_blur=5 sigma=0.1:2")]
    columns_agree(ours, [[p["sigma"][0]] for p in theirs_of(v2.GaussianBlur(5, (0.1, 2.0)))])


def recorded(transform, monkeypatch, count):
    """The operations a policy of torchvision's applies, as (name, magnitude)."""
    import torch

    torch.manual_seed(6)
    calls = []

    def note(self, image, transform_id, magnitude, **_):
        calls[-1].append((transform_id, magnitude))
        return image

    monkeypatch.setattr(type(transform), "_apply_image_or_video_transform", note)
    image = torch.zeros((3, 20, 24), dtype=torch.uint8)
    for _ in range(count):
        calls.append([])
        transform(image)
    return calls


def as_torchvision(op):
    """An operation of ours by torchvision's name and magnitude."""
    name, v, _ = op
    if name != "affine":
        names = {"saturation": "Color", "autocontrast": "AutoContrast"}
        magnitude = {"solarize": lambda: v[0] / 255, "posterize": lambda: v[0]}.get(name, lambda: v[0] - 1 if v else 0)
        return names.get(name, name.capitalize()), magnitude()
    if v[6]:
        return ("ShearX", math.tan(math.radians(v[4]))) if not v[5] else ("ShearY", math.tan(math.radians(v[5])))
    if v[1] or v[2]:
        return ("TranslateX", v[1]) if v[1] else ("TranslateY", v[2])
    return "Rotate", -v[0]


@pytest.mark.parametrize(
    "name",
    [
        "trivial_augment",
        pytest.param("rand_augment", marks=pytest.mark.long),
        pytest.param("auto_augment=imagenet", marks=pytest.mark.long),
        pytest.param("auto_augment=cifar10", marks=pytest.mark.long),
    ],
)
def test_policies(run_leat, path, monkeypatch, name):
    v2 = torchvision_v2()
    policy = {"imagenet": v2.AutoAugmentPolicy.IMAGENET, "cifar10": v2.AutoAugmentPolicy.CIFAR10}
    kind, _, which = name.partition("=")
    transform = {
        "trivial_augment": v2.TrivialAugmentWide,
        "rand_augment": v2.RandAugment,
        "auto_augment": lambda: v2.AutoAugment(policy[which]),
    }[kind]()
    theirs = [op for ops in recorded(transform, monkeypatch, DRAWS) for op in ops]
    ours = [as_torchvision(op) for ops in samples(run_leat, path, name) for op in ops]
    # A move by nothing (magnitude 0) is told apart from no move by neither side of this comparison.
    truncated = {"TranslateX": int, "TranslateY": int}
    theirs = [(n, truncated.get(n, float)(m)) for n, m in theirs if n != "Identity"]
    theirs = [("Rotate", 0.0) if n[0] in "ST" and n[:5] in ("Shear", "Trans") and m == 0 else (n, m) for n, m in theirs]
    ours = [("Rotate", 0.0) if n[:5] in ("Shear", "Trans") and m == 0 else (n, m) for n, m in ours]
    assert abs(len(ours) - len(theirs)) < 5 * math.sqrt(DRAWS)
    names = sorted({n for n, _ in theirs})
    assert names == sorted({n for n, _ in ours})
    limit = 2.225 * math.sqrt(2 / min(len(ours), len(theirs)))
    for part in range(2):
        a, b = ([names.index(op[0]) if part == 0 else op[1] for op in ops] for ops in (ours, theirs))
        assert distance(np.round(a, 5), np.round(b, 5)) < limit
    for n in names:
        a, b = ([op[1] for op in ops if op[0] == n] for ops in (ours, theirs))
        assert distance(np.round(a, 4), np.round(b, 4)) < 2.225 * math.sqrt(1 / len(a) + 1 / len(b)), n


@pytest.mark.long
def test_mixtures(run_leat, path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(7)
    ours = [[op[1][0] for op in ops if op[0] in ("mix", "chain")] for ops in samples(run_leat, path, "augmix depth=1")]
    m = torch._sample_dirichlet(torch.full((DRAWS, 2), 1.0))
    chains = torch._sample_dirichlet(torch.full((DRAWS, 3), 1.0)) * m[:, 1:]
    columns_agree(ours, torch.cat([m[:, :1], chains], dim=1).numpy())
