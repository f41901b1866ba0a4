"""`leat image`: pixels as Pillow and PyTorch have them, and what the command says."""

import io
import os
import random
import resource

import numpy as np
import pytest
from pictures import difference, photo

Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.every_case


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_decoded_jpeg_is_what_pillow_decodes(save, pixels_of, subsampling, progressive):
    path = save(photo(203, 151), "a.jpg", quality=90, subsampling=subsampling, progressive=progressive)
    assert difference(pixels_of(path), np.asarray(Image.open(path).convert("RGB"))) == 0


def test_a_cmyk_jpeg_is_what_pillow_makes_of_it(save, pixels_of):
    path = save(photo(97, 64, mode="CMYK"), "a.jpg", quality=95, subsampling=0)
    assert difference(pixels_of(path), np.asarray(Image.open(path).convert("RGB"))) <= 1


def rows_there(ours, whole):
    """How many rows are the picture's; those below must be grey."""
    count = int((ours == whole).all(axis=(1, 2)).argmin())
    assert (ours[count:] == 128).all()
    return count


@pytest.mark.parametrize("size", [(40, 50), (200, 150)])
@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_truncated_file_gives_the_rows_that_are_there(save, pixels_of, tmp_path, name, size):
    path = save(photo(*size), name, **({"quality": 90, "subsampling": 0} if name == "a.jpg" else {}))
    whole, data = pixels_of(path), path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(share * len(data))])
        ours = pixels_of(path, "--damage", "rows")
        if name == "a.png":
            assert rows_there(ours, whole) >= (share - 0.2) * size[1]
        else:  # the last row of blocks is grey from its middle on
            assert (
                ours[: int((share - 0.25) * size[1]) // 8 * 8] == whole[: int((share - 0.25) * size[1]) // 8 * 8]
            ).all()


def test_what_is_no_file_is_never_removed(save, run_leat, tmp_path):
    path = save(photo(60, 40), "a.jpg")
    full = tmp_path / "full.png"
    full.symlink_to("/dev/full")
    assert "No space left" in run_leat("image", path, "-o", full, status=7).stderr
    assert full.is_symlink()


@pytest.mark.skipif(bool(os.environ.get("LEAT_SANITIZE")), reason="sanitizers take address space of their own")
def test_draws_that_are_not_written_take_no_memory(save, run_leat):
    path = save(photo(16, 16), "a.png")

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    run_leat("image", path, "-n", 200, "--resize", "1000x1000", status=0, preexec_fn=limit)


def cases(count):
    draw = random.Random(7)
    for number in range(count):
        w, h = draw.randint(40, 420), draw.randint(40, 420)
        cw, ch = draw.randint(8, w), draw.randint(8, h)
        size = (draw.randint(1, 260), draw.randint(1, 260)) if number % 2 else (224, 224)
        yield w, h, cw, ch, draw.randint(0, w - cw), draw.randint(0, h - ch), size


@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_a_resized_crop_is_equal_to_pytorch_and_close_to_pillow(save, pixels_of, name, count):
    """Within one level of Pillow; bicubic's negative weights make two of it at a few samples in a million."""
    torch = pytest.importorskip("torch")
    samples, twos = 0, 0
    for w, h, cw, ch, x, y, size in cases(count):
        image = photo(w, h, seed=w * h)
        path = save(image, "a.png")
        ours = pixels_of(path, "--crop", f"{cw}x{ch}+{x}+{y}", "--resize", f"{size[0]}x{size[1]}", "--filter", name)
        crop = image.crop((x, y, x + cw, y + ch))
        method = getattr(Image.Resampling, name.upper())
        # One direction after the other: given both, newer versions of Pillow take the cheaper one first.
        pillow = np.asarray(crop.resize((size[0], ch), method).resize(size, method))
        if name == "bilinear":
            assert difference(ours, np.asarray(crop.resize(size, method))) <= 1
        assert difference(ours, pillow) <= (2 if name == "bicubic" else 1)
        samples += ours.size
        twos += int((np.abs(ours.astype(int) - pillow.astype(int)) > 1).sum())
        tensor = torch.from_numpy(np.asarray(crop).copy()).permute(2, 0, 1)[None]
        resized = torch.nn.functional.interpolate(tensor, size=size[::-1], mode=name, antialias=True)
        assert difference(ours, resized[0].permute(1, 2, 0).numpy()) == 0, (w, h, cw, ch, size)
    assert twos <= samples / 1e5, (twos, samples)


def test_nearest_takes_the_sample_under_the_centre_as_pillow_does(save, pixels_of):
    for w, h, cw, ch, x, y, _ in cases(10):
        image = photo(w, h, seed=w)
        crop = np.asarray(image.crop((x, y, x + cw, y + ch)))
        path = save(image, "a.png")
        ours = pixels_of(path, "--crop", f"{cw}x{ch}+{x}+{y}", "--resize", "64x48", "--filter", "nearest")
        rows, columns = [(2 * i + 1) * ch // 96 for i in range(48)], [(2 * i + 1) * cw // 128 for i in range(64)]
        assert difference(ours, crop[rows][:, columns]) == 0
        # Where a centre falls on the border of two samples, Pillow's sum of steps may round either way.
        ties = any((2 * i + 1) * ch % 96 == 0 for i in range(48)) or any((2 * i + 1) * cw % 128 == 0 for i in range(64))
        if not ties:
            pillow = np.asarray(Image.fromarray(crop).resize((64, 48), Image.Resampling.NEAREST))
            assert difference(ours, pillow) == 0


def test_resize_then_center_crop_equals_the_whole_resize_cut(save, pixels_of):
    for w, h, *_ in cases(6):
        path = save(photo(w, h, seed=h), "a.png")
        scale = 96 / min(w, h)
        rw, rh = (96, int(96 * h / w)) if w <= h else (int(96 * w / h), 96)
        assert scale > 0
        whole = pixels_of(path, "--resize", f"{rw}x{rh}")
        left, top = round((rw - 80) / 2), round((rh - 80) / 2)
        ours = pixels_of(path, "--resize", 96, "--center-crop", 80)
        assert difference(ours, whole[top : top + 80, left : left + 80]) == 0


def test_a_small_picture_is_padded_by_center_crop(save, pixels_of):
    image = photo(30, 20)
    out = pixels_of(save(image, "a.png"), "--center-crop", "50x41", "-p", "fill=9:8:7")
    assert out.shape == (41, 50, 3)
    assert (out[10:30, 10:40] == np.asarray(image)).all()
    out[10:30, 10:40] = (9, 8, 7)
    assert (out == (9, 8, 7)).all()


@pytest.mark.parametrize(
    ("kind", "orientation"),
    [("png", turn) for turn in range(1, 9)]
    + [
        pytest.param(kind, turn, marks=() if turn == 6 else pytest.mark.long)
        for kind in ("jpg", "webp")
        for turn in range(1, 9)
    ],
)
def test_pictures_are_turned_upright(save, pixels_of, orientation, kind):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 90}, "png": {}, "webp": {"lossless": True}}[kind]
    path = save(photo(61, 43, seed=orientation), f"a.{kind}", exif=exif, **options)
    upright = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    turned = ["--orientation", "upright"]
    assert difference(pixels_of(path, *turned), np.asarray(upright)) == 0
    box = (5, 7, 5 + 30, 7 + 29)
    crop = ["--crop", "30x29+5+7", *turned]
    assert difference(pixels_of(path, *crop), np.asarray(upright.crop(box))) == 0
    small = np.asarray(upright.crop(box).resize((16, 12), Image.Resampling.BILINEAR))
    assert difference(pixels_of(path, *crop, "--resize", "16x12"), small) <= 1
    stored = np.asarray(Image.open(path).convert("RGB"))
    assert difference(pixels_of(path), stored) == 0


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "I;16"])
def test_png_kinds_decode_as_pillow_does(save, pixels_of, mode):
    image = photo(67, 41)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
        want = (np.asarray(image) >> 8).astype(np.uint8)
        want = np.stack([want] * 3, axis=2)
    else:
        image = image.convert(mode)
        want = np.asarray(image.convert("RGB"))
    path = save(image, "a.png")
    assert difference(pixels_of(path), want) == 0
    assert difference(pixels_of(path, "--crop", "20x11+13+7"), want[7:18, 13:33]) == 0


def test_alpha_is_blended_over_the_background(save, pixels_of):
    image = photo(40, 30, mode="RGBA")
    for kind, options in (("png", {}), ("webp", {"lossless": True, "exact": True})):
        path = save(image, f"a.{kind}", **options)
        backdrop = Image.new("RGBA", image.size, (10, 200, 30, 255))
        want = np.asarray(Image.alpha_composite(backdrop, image).convert("RGB"))
        assert difference(pixels_of(path, "-p", "alpha=blend background=10:200:30"), want) <= 1


def transparent(kind):
    """A picture of each kind that has transparency, and how to save it."""
    image = photo(40, 30, mode="RGBA")
    if kind == "P":
        return image.convert("RGB").quantize(40), {"transparency": bytes(range(40))}
    if kind == "L":
        return image.convert("L"), {"transparency": 120}
    if kind == "RGB":
        return image.convert("RGB"), {"transparency": image.getpixel((3, 3))[:3]}
    return image.convert(kind), {}


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P", "L", "RGB"])
def test_alpha_is_dropped_as_pillow_drops_it_unless_told(save, pixels_of, kind):
    image, options = transparent(kind)
    path = save(image, "a.png", **options)
    want = np.asarray(Image.open(path).convert("RGB"))
    assert difference(pixels_of(path), want) == 0
    assert difference(pixels_of(path, "--crop", "11x13+20+9"), want[9:22, 20:31]) == 0


@pytest.mark.parametrize("lossless", [False, True])
def test_alpha_of_a_webp_is_dropped_as_pillow_drops_it(save, pixels_of, lossless):
    path = save(photo(40, 30, mode="RGBA"), "a.webp", lossless=lossless, exact=True)
    assert difference(pixels_of(path), np.asarray(Image.open(path).convert("RGB"))) == 0


def animation(path, corner):
    """Two frames; the first covers the canvas, or lies at a corner of a larger one."""
    frames = [photo(40, 30, seed=s, mode="RGBA") for s in (1, 2)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=100, lossless=True, exact=True)
    if not corner:
        return path
    data = bytearray(path.read_bytes())
    canvas, frame = data.index(b"VP8X") + 12, data.index(b"ANMF") + 8
    data[canvas : canvas + 6] = (63).to_bytes(3, "little") + (47).to_bytes(3, "little")
    data[frame : frame + 6] = (10).to_bytes(3, "little") + (8).to_bytes(3, "little")
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("corner", [False, True])
def test_the_first_frame_of_an_animation_is_its_picture(run_leat, pixels_of, tmp_path, corner):
    path = animation(tmp_path / "a.webp", corner)
    want = np.asarray(Image.open(path).convert("RGB"))
    assert want.shape == ((48, 64, 3) if corner else (30, 40, 3))
    assert difference(pixels_of(path), want) == 0
    for w, h, x, y in ((10, 10, 0, 0), (11, 9, 25, 20), (20, 20, 10, 5)):
        assert difference(pixels_of(path, "--crop", f"{w}x{h}+{x}+{y}"), want[y : y + h, x : x + w]) == 0
    if corner:
        blended = pixels_of(path, "--alpha", "blend", "-p", "background=200:100:50")
        assert (blended[:16] == (200, 100, 50)).all()
        assert (blended[46:] == (200, 100, 50)).all()
    exact, fast = (pixels_of(path, "--resize", "16x12", "--mode", mode).astype(int) for mode in ("exact", "fast"))
    assert np.abs(exact - fast).mean() < 12
    done = run_leat("image", path, "-p", "animation=error", "-o", tmp_path / "o.png", status=2)
    assert "an animation" in done.stderr


def test_index_keeps_palette_numbers(save, pixels_of):
    numbers = np.random.default_rng(1).integers(0, 21, (40, 50)).astype(np.uint8)
    image = Image.fromarray(numbers, "P")
    image.putpalette(bytes(range(256)) * 3)
    path = save(image, "mask.png", bits=8)
    assert (pixels_of(path, "--colour", "index", "--filter", "nearest") == numbers).all()
    image = Image.fromarray(numbers % 4, "P")
    image.putpalette(bytes(range(12)))
    path = save(image, "mask2.png", bits=2)
    ours = pixels_of(path, "--colour", "index", "--filter", "nearest", "--crop", "21x9+3+5")
    assert (ours == numbers[5:14, 3:24] % 4).all()


@pytest.mark.parametrize("lossless", [False, True])
def test_a_webp_crop_equals_the_whole_picture_cut(save, pixels_of, lossless):
    path = save(photo(211, 157), "a.webp", lossless=lossless, quality=80)
    whole = pixels_of(path)
    if lossless:
        assert difference(whole, np.asarray(Image.open(path).convert("RGB"))) == 0
    draw = random.Random(3)
    for _ in range(10):
        w, h = draw.randint(1, 211), draw.randint(1, 157)
        x, y = draw.randint(0, 211 - w), draw.randint(0, 157 - h)
        ours = pixels_of(path, "--crop", f"{w}x{h}+{x}+{y}")
        assert difference(ours, whole[y : y + h, x : x + w]) == 0, (w, h, x, y)


def alpha_plane(kind):
    """Alpha that an encoder filters not at all, from the left, from above."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:96, 0:80]
    planes = {
        "none": x + y,
        "horizontal": np.cumsum(rng.integers(-3, 4, (96, 80)), axis=1) + rng.integers(40, 200, (96, 1)),
        # Few differences are kept as a palette.
        "few": (np.cumsum(rng.choice([-9, 4], (96, 80)), axis=1) + rng.choice([30, 90, 200], (96, 1))) % 256,
        "vertical": np.cumsum(rng.integers(-1, 2, (96, 80)), axis=0) + rng.integers(40, 200, (1, 80)),
    }
    return Image.fromarray(np.clip(planes[kind], 0, 255).astype(np.uint8))


@pytest.mark.parametrize(("kind", "number"), [("none", 0), ("few", 1), ("horizontal", 1), ("vertical", 2)])
def test_a_crop_of_a_webp_with_alpha_equals_the_whole_picture_cut(save, pixels_of, kind, number):
    image = photo(80, 96, mode="RGBA")
    image.putalpha(alpha_plane(kind))
    path = save(image, "a.webp", quality=80, method=0)
    data = path.read_bytes()
    assert data[data.index(b"ALPH") + 8] >> 2 & 3 == number, "the encoder chose another filter"
    args = ["-p", "alpha=blend background=200:40:90"]
    whole = pixels_of(path, *args)
    for box in ((40, 30, 20, 50), (9, 8, 70, 88), (80, 1, 0, 95), (1, 60, 40, 17)):
        w, h, x, y = box
        ours = pixels_of(path, *args, "--crop", f"{w}x{h}+{x}+{y}")
        assert difference(ours, whole[y : y + h, x : x + w]) == 0, box


@pytest.mark.parametrize("kind", ["jpg", "webp"])
def test_fast_stays_close_to_exact(save, pixels_of, kind):
    path = save(photo(400, 300), f"a.{kind}", quality=90)
    for size in ("48x48", "175x140", "395x295"):
        fast = pixels_of(path, "--resize", size, "--mode", "fast").astype(int)
        exact = pixels_of(path, "--resize", size).astype(int)
        assert np.abs(fast - exact).mean() < 3.5


def test_same_seed_same_bytes_other_seed_other_crop(run_leat, save, tmp_path):
    path = save(photo(200, 150), "a.jpg")
    args = ["image", path, "--random-resized-crop", 64, "--flip", 0.5, "-n", 3, "-o", "-"]
    first = run_leat(*args, "--seed", 1, text=False, status=0).stdout
    assert first == run_leat(*args, "--seed", 1, text=False, status=0).stdout
    assert first != run_leat(*args, "--seed", 2, text=False, status=0).stdout
    assert first != run_leat(*args, "--seed", 1, "--epoch", 1, text=False, status=0).stdout


def test_a_sheet_has_a_row_per_file_and_a_column_per_draw(run_leat, save, tmp_path):
    a = save(photo(90, 60), "a.jpg")
    b = save(photo(50, 70), "b.png")
    done = run_leat("image", a, b, "--random-resized-crop", "20x30", "-n", 3, "-o", tmp_path / "s.png", status=0)
    assert Image.open(tmp_path / "s.png").size == (3 * 20 + 2 * 4, 2 * 30 + 4)
    assert done.stdout.count("draw ") == 6
    assert "JPEG 90x60" in done.stdout
    assert "PNG 50x70" in done.stdout


def test_mistakes_are_explained(run_leat, save, tmp_path):
    path = save(photo(40, 30), "a.jpg")
    for args, words in (
        (["--crop", "50x10+0+0"], "not inside"),
        (["--crop", "5x"], "size like"),
        (["--random-crop", "64"], "resize before"),
        (["--resize", "0"], "between 1 and"),
        (["--scale", "0.5:1"], "random_resized_crop"),
        (["--random-resized-crop", "10", "--ratio", "2:1"], "ratio"),
        (["--resize", "10", "--random-resized-crop", "10"], "resized once"),
        (["--filter", "cubic"], "bilinear, bicubic, nearest"),
        (["--flip", "2"], "between 0 and 1"),
        (["-n", "0"], "between 1 and"),
        (["-p", "sharpen=1"], "sharpen"),
        (["-p", "dtype=float32"], "uint8"),
        (["--colour", "index"], "nearest"),
        (["-p", "background=1"], "alpha=blend"),
        (["--alpha", "keep"], "drop, blend"),
    ):
        done = run_leat("image", path, *args, status=2)
        assert words in done.stderr, done.stderr
    run_leat("image", tmp_path / "none.jpg", status=3)
    (tmp_path / "text.jpg").write_text("hello")
    assert "none of JPEG, PNG, WebP" in run_leat("image", tmp_path / "text.jpg", status=2).stderr


def test_a_truncated_file_is_an_error_or_the_rows_that_are_there(run_leat, save, pixels_of, tmp_path):
    for kind in ("jpg", "png", "webp"):
        whole = save(photo(160, 120), f"a.{kind}")
        data = whole.read_bytes()
        cut = tmp_path / f"cut.{kind}"
        cut.write_bytes(data[: len(data) * 6 // 10])
        done = run_leat("image", cut, "-o", tmp_path / "x.png", status=6)
        assert str(cut) in done.stderr
        ours = pixels_of(cut, "--damage", "rows")
        want = pixels_of(whole)
        assert difference(ours[:32], want[:32]) == 0, kind
        assert difference(ours[119:], want[119:]) > 0


def test_arithmetic_coding_is_refused_with_a_sentence(run_leat, tmp_path):
    image = io.BytesIO()
    photo(32, 32).save(image, "JPEG")
    data = bytearray(image.getvalue())
    data[data.index(b"\xff\xc0") + 1] = 0xC9
    (tmp_path / "a.jpg").write_bytes(data)
    assert "arithmetic" in run_leat("image", tmp_path / "a.jpg", "-o", tmp_path / "o.png", status=2).stderr


def test_choices_of_a_file_are_methods_in_python():
    leat = pytest.importorskip("leat")
    field = leat.image("jpg").orientation("upright").alpha("blend", (1, 2, 3)).animation("error")
    words = field._describe("x")[3].split()
    assert words == ["orientation=upright", "alpha=blend", "background=1.0:2.0:3.0", "animation=error"]
    with pytest.raises(ValueError, match="blend"):
        leat.image("jpg").alpha("drop", 7)
