"""TIFF, BMP, GIF, AVIF and JPEG XL as Pillow and their own libraries read them; 16 bits and four channels."""

import io
import itertools
import random
import struct
import zlib

import numpy as np
import pytest
from conftest import SANITIZE
from format_writer import Field, Place
from pictures import difference, photo

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
tifffile = pytest.importorskip("tifffile")
pytest.importorskip("pillow_jxl")  # Pillow reads and writes JPEG XL then

pytestmark = pytest.mark.every_case

FORMATS = {"TIFF": "tif", "BMP": "bmp", "GIF": "gif", "AVIF": "avif", "JXL": "jxl"}


def deep(width, height, channels=3, seed=0):
    """Samples of 16 bits, all of which matter."""
    rng = np.random.default_rng(seed)
    wide = rng.integers(0, 65536, (height, width, channels)).astype(np.uint16)
    return wide if channels > 1 else wide[:, :, 0]


@pytest.fixture
def save(tmp_path):
    def run(image, name, **options):
        path = tmp_path / name
        if isinstance(image, bytes):
            path.write_bytes(image)
        else:
            image.save(path, **options)
        return path

    return run


def same(path, pixels_of, *crop, mode="RGB", within=0):
    whole = np.asarray(Image.open(path).convert(mode))
    height, width = whole.shape[:2]
    gray = ["--colour", "gray"] if mode == "L" else []
    assert difference(pixels_of(path, *gray), whole) <= within
    for w, h, x, y in ((1, 1, 0, 0), (1, 1, width - 1, height - 1), (width // 2, height // 3, width // 4, height // 5)):
        part = pixels_of(path, "--crop", f"{w}x{h}+{x}+{y}", *gray)
        assert difference(part.reshape(h, w, -1), whole[y : y + h, x : x + w].reshape(h, w, -1)) <= within


def each_and_all(*values):
    """Cases with every value of every parameter, next to the first ones of the others; all combinations in the long suite."""
    first = [each[0] for each in values]
    return [
        case if sum(a != b for a, b in zip(case, first)) <= 1 else pytest.param(*case, marks=pytest.mark.long)
        for case in itertools.product(*values)
    ]


@pytest.mark.parametrize(
    ("mode", "compression"),
    each_and_all(
        ["RGB", "L", "P", "1", "CMYK"], [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "tiff_jpeg", "zstd"]
    ),
)
def test_tiff_is_what_pillow_reads(save, pixels_of, mode, compression):
    if compression == "tiff_jpeg" and mode not in ("RGB", "L"):
        pytest.skip("JPEG in TIFF is grey or colour")
    image = photo(75, 61, mode="RGB").convert(mode) if mode in ("P", "1") else photo(75, 61, mode=mode)
    path = save(image, "a.tif", compression=compression)
    # libtiff makes RGB of CMYK by multiplying, Pillow by subtracting.
    within = 64 if mode == "CMYK" else 0
    same(path, pixels_of, within=within)


@pytest.mark.parametrize(
    ("tile", "planar", "order", "big"),
    each_and_all([None, (16, 32)], ["contig", "separate"], ["<", ">"], [False, True]),
)
def test_tiff_of_16_bits_in_strips_tiles_and_planes(tmp_path, pixels_of, tile, planar, order, big):
    wide = deep(70, 45)
    data = wide if planar == "contig" else wide.transpose(2, 0, 1)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, data, photometric="rgb", planarconfig=planar, tile=tile, byteorder=order, bigtiff=big,
                     compression="zlib", rowsperstrip=None if tile else 7)  # fmt: skip
    assert difference(pixels_of(path), wide >> 8) == 0
    assert difference(pixels_of(path, "--crop", "33x20+21+17"), wide[17:37, 21:54] >> 8) == 0


TIFF_KINDS = {
    "grey": (1, {"photometric": "minisblack"}),
    "white is 0": (1, {"photometric": "miniswhite"}),
    "grey, alpha": (2, {"photometric": "minisblack", "extrasamples": ["unassalpha"]}),
    "alpha": (4, {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
    "associated alpha": (4, {"photometric": "rgb", "extrasamples": ["assocalpha"]}),
    "a fourth": (4, {"photometric": "rgb", "extrasamples": ["unspecified"]}),
}


@pytest.mark.parametrize("kind", TIFF_KINDS)
def test_samples_of_a_tiff_are_taken_as_docs_prep_says(tmp_path, pixels_of, kind):
    """Of 8 bits as they are, which is what Pillow does but for associated alpha; of 16 bits the upper 8, where Pillow cuts
    grey off at 255."""
    channels, options = TIFF_KINDS[kind]
    for bits in (8, 16):
        wide = deep(31, 22, channels, seed=bits)
        stored = wide if bits == 16 else (wide >> 8).astype(np.uint8)
        tifffile.imwrite(tmp_path / "a.tif", stored, **options)
        upper = (wide >> 8).astype(np.uint8).reshape(22, 31, channels)
        upper = 255 - upper if kind == "white is 0" else upper
        colours = upper[:, :, :3] if channels == 4 else np.repeat(upper[:, :, :1], 3, axis=2)
        got = pixels_of(tmp_path / "a.tif")
        assert (got == colours).all()
        if bits == 8 and kind != "associated alpha":
            assert (got == np.asarray(Image.open(tmp_path / "a.tif").convert("RGB"))).all()
        four = pixels_of(tmp_path / "a.tif", "--colour", "rgba")
        alpha = wide[:, :, -1:] if "alpha" in kind else np.full((22, 31, 1), 65535)
        exact = np.concatenate([colours, alpha >> 8], axis=2)
        if bits == 16:
            full = 65535 - wide.reshape(22, 31, channels) if kind == "white is 0" else wide.reshape(22, 31, channels)
            full = full[:, :, :3] if channels == 4 else np.repeat(full[:, :, :1], 3, axis=2)
            exact = np.round(np.concatenate([full, alpha], axis=2) / 257)
        assert (four == exact).all()


@pytest.mark.parametrize("orientation", [6])  # the turning itself is tested with PNGs
def test_tiff_is_turned_as_pillow_turns_it(save, pixels_of, orientation):
    path = save(photo(40, 30), "a.tif", tiffinfo={274: orientation})
    same(path, pixels_of)


def bmp(width, height, bits, compression, body, palette=b"", masks=(), top_down=False, header=40):
    extra = b"".join(struct.pack("<I", m) for m in masks)
    head = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits, compression, len(body),
                       0, 0, len(palette) // 4, 0)  # fmt: skip
    head = (head + extra).ljust(header, b"\0") if header > 40 else head + extra
    offset = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + head + palette + body


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_bmp_is_what_pillow_reads(save, pixels_of, mode):
    image = photo(75, 61)
    same(save(image.convert(mode), "a.bmp"), pixels_of)


@pytest.mark.parametrize("top_down", [False, True])
@pytest.mark.parametrize(
    ("bits", "compression", "masks", "header"),
    [(16, 0, (), 40), (16, 3, (0xF800, 0x7E0, 0x1F), 40), (16, 3, (0x7C00, 0x3E0, 0x1F), 40), (32, 0, (), 40)]
    + [(32, 3, (0xFF0000, 0xFF00, 0xFF), 40), (32, 3, (0xFF0000, 0xFF00, 0xFF, 0xFF000000), 108), (24, 0, (), 40)],
)
def test_bmp_of_every_depth(save, pixels_of, bits, compression, masks, header, top_down):
    rng = np.random.default_rng(3)
    stride = (13 * bits + 31) // 32 * 4
    body = rng.integers(0, 256, stride * 11, dtype=np.uint8).tobytes()
    path = save(bmp(13, 11, bits, compression, body, masks=masks, header=header, top_down=top_down), "a.bmp")
    same(path, pixels_of)


def test_bmp_of_runs(save, pixels_of):
    palette = bytes(random.Random(1).randrange(256) for _ in range(1024))
    runs = (
        b"\x05\x07\x00\x03\x01\x02\x03\x00\x04\x09\x00\x00"
        + b"\x0c\x10\x00\x00"
        + b"\x03\x01\x00\x02\x02\x01\x07\x08\x00\x00"
        + b"\x0c\x21\x00\x00" * 2
        + b"\x00\x01"
    )
    same(save(bmp(12, 6, 8, 1, runs, palette=palette), "a.bmp"), pixels_of)
    runs = b"\x05\x12\x00\x05\x34\x56\x70\x00\x02\x99\x00\x00" + b"\x0c\xab\x00\x00" * 5 + b"\x00\x01"
    same(save(bmp(12, 6, 4, 2, runs, palette=palette[:64]), "b.bmp"), pixels_of)


@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize("colours", [2, 5, 256])
def test_gif_is_what_pillow_reads(save, pixels_of, interlace, colours):
    image = photo(75, 61).quantize(colours)
    same(save(image, "a.gif", interlace=interlace), pixels_of)


def test_gif_whose_frame_is_not_the_canvas_and_which_goes_on(run_leat, save, pixels_of):
    first = photo(30, 20).quantize(16)
    path = save(first, "a.gif", save_all=True, append_images=[photo(30, 20, seed=4).quantize(16)])
    same(path, pixels_of)
    assert "animation" in run_leat("image", path, "-p", "animation=error", status=2).stderr
    data = bytearray(save(first, "b.gif").read_bytes())
    data[6:10] = struct.pack("<HH", 50, 40)
    at = data.index(b",\0\0\0\0", 13)
    data[at + 1 : at + 5] = struct.pack("<HH", 7, 9)
    same(save(bytes(data), "c.gif"), pixels_of)


def test_gif_of_one_colour_and_of_long_codes(save, pixels_of):
    same(save(Image.new("P", (200, 100), 0), "a.gif"), pixels_of)
    noise = np.random.default_rng(2).integers(0, 256, (200, 300), dtype=np.uint8)
    same(save(Image.fromarray(noise), "b.gif"), pixels_of)  # the table fills up many times


@pytest.mark.parametrize("alpha", [False, True])
def test_avif_without_loss_is_exact_and_lossy_is_close(save, pixels_of, alpha):
    image = photo(64, 48, mode="RGBA" if alpha else "RGB")
    path = save(image, "a.avif", quality=100, subsampling="4:4:4")
    same(path, pixels_of, within=1)
    for subsampling in ("4:4:4", "4:2:0", "4:0:0"):
        path = save(image, "b.avif", quality=60, subsampling=subsampling)
        same(path, pixels_of, within=3)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA"])
def test_jxl_without_loss_is_exact(save, pixels_of, mode):
    image = photo(75, 61, mode=mode)
    same(save(image, "a.jxl", lossless=True), pixels_of)
    same(save(image.convert("RGB"), "b.jxl", quality=80), pixels_of, within=3)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "PNG", "WEBP", "AVIF", "JXL", "BMP"])
def test_alpha_is_dropped_or_blended_in_every_format(save, pixels_of, kind):
    image = photo(40, 30, mode="RGBA")
    rgba = np.asarray(image).copy()
    if kind == "GIF":
        rgba[:, :, 3] = np.where(rgba[:, :, 3] > 128, 255, 0)
        image = Image.fromarray(rgba)
    options = {
        "WEBP": {"lossless": True, "exact": True},
        "JXL": {"lossless": True},
        "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    }
    if kind == "BMP":
        body = rgba[::-1, :, [2, 1, 0, 3]].tobytes()
        path = save(bmp(40, 30, 32, 3, body, masks=(0xFF0000, 0xFF00, 0xFF, 0xFF000000), header=108), "a.bmp")
    else:
        path = save(image, "a." + FORMATS.get(kind, kind.lower()), **options.get(kind, {}))
    reference = np.asarray(Image.open(path).convert("RGBA")).astype(int)
    within = 1 if kind == "AVIF" else 0
    if kind != "GIF":
        assert difference(pixels_of(path), reference[:, :, :3]) <= within
    alpha = reference[:, :, 3:]
    blended = (reference[:, :, :3] * alpha + 200 * (255 - alpha) + 127) // 255
    assert difference(pixels_of(path, "-p", "alpha=blend background=200"), blended) <= within + 1


# What is left of damaged files.


def whole_files():
    out = {}
    for kind in FORMATS:
        buffer = io.BytesIO()
        image = photo(40, 30)
        image.quantize(64).save(buffer, kind) if kind == "GIF" else image.save(buffer, kind)
        out[kind] = buffer.getvalue()
    return out


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_is_cut_anywhere_is_refused_or_whole(run_leat, save, pixels_of, kind):
    data = whole_files()[kind]
    want = pixels_of(save(data, "whole"))
    for n in sorted({*range(0, 60, 12), *range(60, len(data), max(1, len(data) // 8))}):
        path = save(data[:n], "cut")
        done = run_leat("image", path, "-o", path.with_suffix(".png"))
        assert done.returncode in (0, 2, 6), (n, done.stderr)
        if done.returncode == 0:
            assert difference(np.asarray(Image.open(path.with_suffix(".png"))), want) == 0, n


@pytest.mark.parametrize("kind", FORMATS)
def test_mutated_files_never_crash(run_leat, save, kind):
    data = whole_files()[kind]
    rng = random.Random(kind)
    files = []
    for i in range(60 if SANITIZE else 12):  # make fuzz goes on from where this ends
        bad = bytearray(data)
        for _ in range(rng.choice([1, 2, 8])):
            bad[rng.randrange(min(len(bad), rng.choice([40, 200, len(bad)])))] = rng.randrange(256)
        files.append(save(bytes(bad), f"{i}"))
    for path in files:
        assert run_leat("image", path).returncode in (0, 2, 6, 7)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.bmp", bmp(60000, 60000, 8, 1, b"\0\1", palette=bytes(1024))),
        (
            "a.gif",
            b"GIF89a"
            + struct.pack("<HHBBB", 65535, 65535, 0x80, 0, 0)
            + bytes(6)
            + b",\0\0\0\0\xff\xff\xff\xff\0\2\1\0\0;",
        ),
    ],
    ids=["bmp", "gif"],
)
def test_a_small_file_that_says_it_is_huge_meets_the_limit(run_leat, save, name, data):
    assert "limit" in run_leat("image", save(data, name), "--resize", "8x8", status=7).stderr


def test_a_huge_tiff_and_jxl_meet_the_limit(run_leat, tmp_path, save):
    small = tmp_path / "b.tif"
    tifffile.imwrite(small, np.zeros((8, 8), np.uint8))
    data = bytearray(small.read_bytes())
    for tag in (256, 257):
        at = data.index(struct.pack("<HHI", tag, 4, 1))
        data[at + 8 : at + 12] = struct.pack("<I", 60000)
    assert "limit" in run_leat("image", save(bytes(data), "c.tif"), "--resize", "8x8", status=7).stderr
    buffer = io.BytesIO()
    Image.new("L", (20000, 15000)).save(buffer, "JXL", lossless=True, effort=1)
    assert "limit" in run_leat("image", save(buffer.getvalue(), "d.jxl"), "--resize", "8x8", status=7).stderr


def test_a_missing_library_is_named(run_leat, save):
    path = save(photo(20, 20), "a.avif")
    done = run_leat("image", path, "-o", path.with_suffix(".png"), env={"LD_LIBRARY_PATH": str(path.parent)})
    assert done.returncode == 0
    for name in ("libavif.so.15", "libavif.so.16"):
        (path.parent / name).write_bytes(b"no library at all")
    done = run_leat("image", path, "-o", path.with_suffix(".png"), env={"LD_LIBRARY_PATH": str(path.parent)}, status=2)
    assert "libavif.so" in done.stderr and "install" in done.stderr


# 16 bits and four channels, in a loader as a user has them.


@pytest.fixture
def loaded(lt, tmp_path):
    """loaded({key: bytes}, lambda image: image.rgba()) -> {key: array}, by way of a dataset and a loader."""
    count = iter(range(100))

    def run(files, make):
        place = tmp_path / f"ds{next(count)}"
        samples = [(key.encode(), {"x": (data, (0,) * 7)}) for key, data in files.items()]
        Place(place).write([Field("x", 2)], [samples])
        with lt.Loader(str(place), batch_size=len(files), fields={"x": make(lt.image("x")), "k": lt.key()}) as loader:
            ((x, keys),) = list(loader)
        return {k: np.asarray(x[i]) for i, k in enumerate(keys)}

    return run


def png_of(array):
    """16 bits, which Pillow does not write in colour."""
    height, width, channels = (*array.shape, 1)[:3]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    out = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        out += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return out


def tiff_of(array):
    out = io.BytesIO()
    colour = array.ndim == 3 and array.shape[2] >= 3
    extra = ["unassalpha"] if array.ndim == 3 and array.shape[2] in (2, 4) else None
    tifffile.imwrite(out, array, photometric="rgb" if colour else "minisblack", extrasamples=extra,
                     planarconfig="contig" if array.ndim == 3 else None)  # fmt: skip
    return out.getvalue()


@pytest.mark.parametrize(("channels", "kind"), each_and_all([3, 1, 2, 4], [png_of, tiff_of]))
def test_samples_of_16_bits_come_as_they_are(loaded, kind, channels):
    wide = deep(24, 20, channels)
    files = {"a": kind(wide)}
    whole = wide if channels > 1 else wide[:, :, None]
    colours = np.repeat(whole[:, :, :1], 3, axis=2) if channels < 3 else whole[:, :, :3]
    alpha = whole[:, :, -1:] if channels in (2, 4) else np.full_like(whole[:, :, :1], 65535)
    rgb = loaded(files, lambda x: x.crop(2, 3, 15, 16).dtype("uint16"))["a"]
    assert rgb.dtype == np.uint16 and (rgb == colours[2:17, 3:19]).all()
    rgba = loaded(files, lambda x: x.crop(2, 3, 15, 16).dtype("uint16").rgba().layout("nchw"))["a"]
    assert (rgba == np.concatenate([colours, alpha], axis=2)[2:17, 3:19].transpose(2, 0, 1)).all()
    floats = loaded(files, lambda x: x.crop(0, 0, 20, 24).dtype("float32").bits(16))["a"]
    assert np.abs(floats - colours / 65535).max() < 1e-6
    if channels == 1:
        index = loaded(files, lambda x: x.crop(0, 0, 20, 24).index().filter("nearest").dtype("uint16"))["a"]
        assert (index == whole).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "JXL"])
def test_8_bits_are_spread_over_16(loaded, kind):
    out = io.BytesIO()
    photo(30, 20).save(out, kind)
    reference = np.asarray(Image.open(out).convert("RGB"))
    got = loaded({"a": out.getvalue()}, lambda x: x.crop(0, 0, 20, 30).dtype("uint16"))["a"]
    assert (difference(got, reference.astype(int) * 257)) <= (3 * 257 if kind == "JXL" else 0)
    rgba = loaded({"a": out.getvalue()}, lambda x: x.crop(0, 0, 20, 30).rgba())["a"]
    assert difference(rgba[:, :, :3], reference) <= (3 if kind == "JXL" else 0) and (rgba[:, :, 3] == 255).all()
    gray = loaded({"a": out.getvalue()}, lambda x: x.crop(0, 0, 20, 30).gray().dtype("float32").bits(16))["a"]
    assert np.abs(gray[:, :, 0] * 255 - np.asarray(Image.fromarray(reference).convert("L"))).max() < (
        4 if kind == "JXL" else 1.5
    )


@pytest.mark.parametrize("filter", ["bilinear", "bicubic", "nearest"])
def test_wide_samples_are_resized_as_torch_resizes_floats(loaded, filter):
    torch = pytest.importorskip("torch")
    wide = (deep(61, 47, 4, seed=5) // 2 + 16384).astype(np.uint16)
    for size in ((20, 25), (80, 90), (47, 30)):
        got = loaded({"a": png_of(wide)}, lambda x, s=size: x.resize(s).rgba().dtype("uint16").filter(filter))["a"]
        tensor = torch.from_numpy(wide.astype(np.float32)).permute(2, 0, 1)[None]
        mode = "nearest-exact" if filter == "nearest" else filter
        want = torch.nn.functional.interpolate(tensor, size, mode=mode, antialias=filter != "nearest")
        want = want[0].permute(1, 2, 0).clamp(0, 65535).round().numpy()
        assert difference(got, want) <= 1


def test_wide_pictures_are_padded_flipped_and_turned(loaded):
    image = photo(30, 20, mode="RGBA")
    exif = Image.Exif()
    for orientation in range(1, 9):
        exif[0x0112] = orientation
        out = io.BytesIO()
        image.save(out, "PNG", exif=exif)
        upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(out.getvalue()))))
        height, width = upright.shape[:2]
        got = loaded(
            {"a": out.getvalue()}, lambda x: x.center_crop((40, 44)).flip(1.0).vflip(1.0).rgba().orientation("upright")
        )["a"]
        want = np.zeros((40, 44, 4), np.uint8)
        top, left = (40 - height) // 2, (44 - width) // 2
        want[top : top + height, left : left + width] = upright
        assert difference(got, want[::-1, ::-1]) == 0


def test_floats_of_four_channels_are_normalised_but_for_alpha(loaded):
    image = photo(8, 6, mode="RGBA")
    out = io.BytesIO()
    image.save(out, "PNG")
    pixels = np.asarray(image).astype(np.float64) / 255
    make = {"float32": 1e-6, "float16": 4e-3}
    for dtype, within in make.items():
        got = loaded(
            {"a": out.getvalue()},
            lambda x, d=dtype: x.crop(0, 0, 6, 8).rgba().dtype(d).normalize((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
        )["a"].astype(np.float64)
        want = (pixels - (0.4, 0.5, 0.6, 0)) / (0.2, 0.25, 0.3, 1)
        assert np.abs(got - want).max() < within


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda x: x.resize((8, 8)).dtype("uint16").invert(1.0), "augmentations"),
        (lambda x: x.resize((8, 8)).rgba().alpha("blend"), "rgba"),
        (lambda x: x.resize((8, 8)).bits(16), "uint8"),
        (lambda x: x.resize((8, 8)).dtype("uint16").normalize(0.5, 0.5), "normalised"),
        (lambda x: x.random_crop(8, padding=2, border="reflect").rgba(), "border"),
    ],
)
def test_what_wide_samples_cannot_do_is_refused(lt, images, make, word):
    with pytest.raises(lt.Error, match=word):
        lt.Loader(images.url, batch_size=4, fields={"x": make(lt.image("png"))})


def test_a_folder_of_all_formats_is_packed_as_images(lt, run_leat, tmp_path):
    (tmp_path / "files").mkdir()
    for name in ("a.tif", "b.tiff", "c.bmp", "d.gif", "e.avif", "f.jxl", "g.png", "h.jpg", "i.webp"):
        photo(40, 30).save(tmp_path / "files" / name)
    run_leat("pack", tmp_path / "files", tmp_path / "ds", status=0)
    fields = {"x": lt.image("image").resize((16, 16)), "k": lt.key()}
    with lt.Loader(str(tmp_path / "ds"), batch_size=9, fields=fields) as loader:
        ((x, keys),) = list(loader)
    by_key = {k: np.asarray(x[i]).astype(int) for i, k in enumerate(keys)}
    assert len(by_key) == 9
    assert all(np.abs(v - by_key["g.png"]).mean() < 12 for v in by_key.values())
