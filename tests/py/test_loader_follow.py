"""Boxes and masks that follow their picture, in a loader as a user has them."""

import io

import numpy as np
import pytest
from format_writer import Field, Place

Image = pytest.importorskip("PIL.Image")
WIDTH, HEIGHT, MARK = 60, 48, 6


def encoded(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def sample(rng, i):
    """Squares of colours of their own on black: a picture, a mask of half its size, and boxes around the squares."""
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mask = np.zeros((HEIGHT // 2, WIDTH // 2), np.uint8)
    boxes = []
    for k in range(4):
        x = 2 * int(rng.integers(0, (WIDTH // 2 - MARK) // 2)) + (WIDTH // 2 if k % 2 else 0)
        y = 2 * int(rng.integers(0, (HEIGHT // 2 - MARK) // 2)) + (HEIGHT // 2 if k // 2 else 0)
        picture[y : y + MARK, x : x + MARK] = 50 * (k + 1)
        mask[y // 2 : (y + MARK) // 2, x // 2 : (x + MARK) // 2] = k + 1
        boxes.append((x, y, x + MARK, y + MARK))
    order = rng.permutation(4)
    data = np.array(boxes, "<f4")[order].tobytes() if i % 5 else b""
    return (b"%03d" % i), {"img": (encoded(picture), (0,) * 7), "mask": (encoded(mask), (0,) * 7), "box": data}, order


@pytest.fixture
def marked(tmp_path):
    rng = np.random.default_rng(4)
    made = [sample(rng, i) for i in range(60)]
    fields = [Field("img", 2), Field("mask", 2), Field("box", 1)]
    rows = [(key, values) for key, values, _ in made]
    Place(tmp_path / "ds").write(fields, [rows[:25], rows[25:]])
    return str(tmp_path / "ds"), {key.decode(): (values, order) for key, values, order in made}


def extent(picture, level, within=0):
    """Where a colour is: left, top, right, bottom; None: nowhere."""
    y, x = np.nonzero(np.abs(picture[:, :, 0].astype(int) - level) <= within)
    return None if len(x) == 0 else (x.min(), y.min(), x.max() + 1, y.max() + 1)


@pytest.mark.parametrize("shuffle", [False, True])
def test_boxes_are_where_their_squares_went(lt, marked, shuffle):
    url, known = marked
    x = lt.image("img").random_crop((30, 40)).flip().vflip()
    fields = {"x": x, "b": x.boxes("box"), "k": lt.key()}
    seen = dropped = cut = 0
    with lt.Loader(url, batch_size=7, fields=fields, seed=2, shuffle=shuffle, last="short") as loader:
        for pictures, boxes, keys in loader:
            for picture, box, key in zip(pictures, boxes, keys):
                values, order = known[key]
                found = np.frombuffer(box, "f4").reshape(-1, 5)
                squares = {int(n): tuple(b) for *b, n in found}
                if not values["box"]:
                    assert len(found) == 0
                    continue
                for place, k in enumerate(order):
                    want = extent(np.asarray(picture), 50 * (int(k) + 1))
                    assert squares.get(place) == want, (key, place)
                    dropped += want is None
                    cut += want is not None and (want[2] - want[0] < MARK or want[3] - want[1] < MARK)
                    seen += want is not None
    assert seen > 50 and dropped > 20 and cut > 5


def test_boxes_of_a_resized_picture_are_scaled_with_it(lt, marked):
    url, known = marked
    x = lt.image("img").random_resized_crop(64, scale=(0.5, 1.0)).flip()
    with lt.Loader(url, batch_size=60, fields={"x": x, "b": x.boxes("box"), "d": x.drawn(), "k": lt.key()}) as loader:
        ((_, boxes, drawn, keys),) = list(loader)
    for box, d, key in zip(boxes, np.asarray(drawn), keys):
        values, _ = known[key]
        stored = np.frombuffer(values["box"], "f4").reshape(-1, 4)
        matrix = d[11:].reshape(3, 3)
        for *got, place in np.frombuffer(box, "f4").reshape(-1, 5):
            left, top, right, bottom = stored[int(place)]
            corners = np.array([matrix @ (u, v, 1) for u in (left, right) for v in (top, bottom)])[:, :2]
            want = [*np.clip(corners.min(axis=0), 0, 64), *np.clip(corners.max(axis=0), 0, 64)]
            assert np.abs(np.array(got) - want).max() < 1e-3


def test_a_mask_of_half_the_size_follows_the_picture(lt, marked):
    url, _ = marked
    steps = lambda x: x.random_resized_crop((24, 30), scale=(0.6, 1.0)).flip().vflip()  # noqa: E731
    fields = {
        "x": steps(lt.image("img")).filter("nearest"),
        "m": steps(lt.image("mask")).follow("img").filter("nearest").index(),
    }
    agree = total = 0
    for epoch in range(2):
        with lt.Loader(url, batch_size=20, fields=fields, epoch=epoch) as loader:
            for batch in loader:
                pictures, masks = np.asarray(batch[0])[..., 0] // 50, np.asarray(batch[1])[..., 0]
                agree += (pictures == masks).sum()
                total += pictures.size
                for p, m in zip(pictures, masks):  # no square is somewhere else than its mask, but for its edges
                    for k in range(1, 5):
                        if (p == k).sum() > 8:
                            centre = [np.mean(np.nonzero(q == k), axis=1) for q in (p, m)]
                            assert np.abs(centre[0] - centre[1]).max() < 1.5
    assert agree / total > 0.95


def test_follow_and_boxes_name_what_is_missing(lt, marked):
    url, _ = marked
    with pytest.raises(lt.Error, match="follow=nothing"):
        lt.Loader(url, batch_size=4, fields={"m": lt.image("mask").resize((8, 8)).follow("nothing")})
    with pytest.raises(lt.Error, match="img"):
        lt.Loader(url, batch_size=4, fields={"b": lt.image("img").resize((8, 8)).boxes("img")})


def test_boxes_that_are_not_whole_are_refused_by_sample(lt, tmp_path):
    picture = encoded(np.zeros((8, 8, 3), np.uint8))
    rows = [(b"bad", {"img": (picture, (0,) * 7), "box": bytes(17)})]
    Place(tmp_path / "ds").write([Field("img", 2), Field("box", 1)], [rows])
    x = lt.image("img").resize((8, 8))
    with (
        pytest.raises(lt.Error, match=r"'bad'.*17 bytes"),
        lt.Loader(str(tmp_path / "ds"), batch_size=1, fields={"b": x.boxes("box")}) as loader,
    ):
        next(iter(loader))
