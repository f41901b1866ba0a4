"""MixUp and CutMix: drawn with torchvision's distributions, and given what was drawn, its pixels and labels."""

import math

import numpy as np
import pytest
from augment import torchvision_v2
from test_augment_draws import DRAWS, columns_agree


@pytest.mark.parametrize("alpha", [0.2, pytest.param(1.0, marks=pytest.mark.long)])
def test_what_is_drawn_has_torchvisions_distribution(leat, alpha):
    torch = pytest.importorskip("torch")
    v2 = torchvision_v2()
    torch.manual_seed(3)
    mix = leat.BatchMix(10, mixup=alpha)
    ours = [[mix.draw(1, i, 40, 48)[0]] for i in range(DRAWS)]
    columns_agree(ours, torch.distributions.Beta(alpha, alpha).sample((DRAWS, 1)).numpy())
    mix, theirs = leat.BatchMix(10, cutmix=alpha), v2.CutMix(alpha=alpha, num_classes=10)
    ours = [(share, *box) for share, box in (mix.draw(1, i, 40, 48) for i in range(DRAWS))]
    image = torch.zeros((2, 3, 40, 48))
    params = [theirs.make_params([image]) for _ in range(DRAWS)]
    columns_agree(ours, [(p["lam_adjusted"], *p["box"]) for p in params])


def test_each_happens_as_often_as_asked(leat):
    mix = leat.BatchMix(10, mixup=0.5, cutmix=1.0, p=0.7, seed=4)
    drawn = [mix.draw(2, i, 40, 48) for i in range(DRAWS)]
    cut = sum(box is not None for _, box in drawn)
    none = sum(box is None and share == 1.0 for share, box in drawn)
    assert abs(cut / DRAWS - 0.35) < 5 * math.sqrt(0.25 / DRAWS)
    assert abs(none / DRAWS - 0.3) < 5 * math.sqrt(0.25 / DRAWS)
    assert drawn == [leat.BatchMix(10, mixup=0.5, cutmix=1.0, p=0.7, seed=4).draw(2, i, 40, 48) for i in range(DRAWS)]
    assert drawn[:50] != [mix.draw(3, i, 40, 48) for i in range(50)]


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_pixels_and_labels_are_torchvisions(leat, kind, layout, monkeypatch):
    torch = pytest.importorskip("torch")
    v2 = torchvision_v2()
    torch.manual_seed(5)
    images, labels = torch.rand(6, 3, 20, 24), torch.randint(0, 10, (6,))
    mix = leat.BatchMix(10, **{kind: 1.0}, layout=layout)
    for first in range(20):
        share, box = mix.draw(0, first, 20, 24)
        theirs = {"mixup": v2.MixUp, "cutmix": v2.CutMix}[kind](num_classes=10)
        params = {"lam": share} if kind == "mixup" else {"box": box, "lam_adjusted": share}
        monkeypatch.setattr(theirs, "make_params", lambda _, params=params: dict(params))
        want, want_labels = theirs(images, labels)
        given = images if layout == "nchw" else images.permute(0, 2, 3, 1)
        got, got_labels = mix(given, labels, epoch=0, first=first)
        got = got if layout == "nchw" else got.permute(0, 3, 1, 2)
        assert torch.allclose(got, want, atol=1e-6)
        assert kind == "mixup" or torch.equal(got, want)
        assert torch.allclose(got_labels, want_labels, atol=1e-6)
        arrays = mix(given.numpy(), labels.numpy(), epoch=0, first=first)
        assert np.allclose(arrays[0], mix(given, labels, epoch=0, first=first)[0].numpy(), atol=1e-6)
        assert np.allclose(arrays[1], got_labels.numpy(), atol=1e-6)


def test_mistakes_are_explained(leat):
    for settings, words in (
        ({}, "nothing would be mixed"),
        ({"mixup": -1}, "mixup"),
        ({"cutmix": 1, "p": 2}, "p=2"),
        ({"mixup": 1, "layout": "hwc"}, "nchw"),
    ):
        with pytest.raises(leat.Error, match=words):
            leat.BatchMix(10, **settings)
    whole = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    with pytest.raises(leat.Error, match="float"):
        leat.BatchMix(10, mixup=1)(whole, np.zeros(2, dtype=np.int64), epoch=0, first=1)
