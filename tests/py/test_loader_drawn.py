"""What was drawn, as an output; and several views of a picture in one batch."""

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
SIDE = 16


def test_drawn_numbers_say_which_pixels_these_are(lt, images):
    source = lt.image("png")
    x = source.random_crop(SIDE).flip().vflip(0.3)
    local = lt.image("png", view=1).random_crop(8).flip().invert(1.0)
    fields = {"x": x, "d": x.drawn(), "l": local, "ld": local.drawn(), "k": lt.key(), "other": source.resize((4, 4))}
    seen = set()
    with lt.Loader(images.url, batch_size=20, fields=fields, seed=3) as loader:
        for values in loader:
            batch = dict(zip(fields, values))
            for i, key in enumerate(batch["k"]):
                picture = np.asarray(Image.open(images.path.parent / "files" / key))
                for name, numbers, side in (("x", "d", SIDE), ("l", "ld", 8)):
                    d = np.asarray(batch[numbers][i])
                    assert d.shape == (20,)
                    assert (d[0], d[1]) == picture.shape[1::-1]
                    left, top, width, height = (int(v) for v in d[2:6])
                    assert (width, height) == (side, side) == tuple(d[6:8])
                    want = picture[top : top + height, left : left + width]
                    want = want[:, ::-1] if d[8] else want
                    want = want[::-1] if d[9] else want
                    want = 255 - want if name == "l" else want
                    assert (np.asarray(batch[name][i]) == want).all()
                    corner = d[11:].reshape(3, 3) @ (left, top, 1)
                    assert tuple(corner[:2]) == (side if d[8] else 0, side if d[9] else 0)
                    seen.add((name, bool(d[8]), bool(d[9])))
    assert len(seen) == 4 + 2


def test_boxes_of_a_field_that_is_none_are_refused(lt, images):
    with pytest.raises(lt.Error, match="box"):
        lt.Loader(images.url, batch_size=4, fields={"b": lt.image("png").resize((8, 8)).boxes("box")})
