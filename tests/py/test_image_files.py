"""Files that are legal and unusual, or broken in ways that other readers pass over: as Pillow reads them, or refused."""

import io
import re
import struct
import zlib

import numpy as np
import pytest
from pictures import difference, photo

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")


def encoded(image, kind="JPEG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pillow(path):
    return np.asarray(Image.open(path).convert("RGB"))


@pytest.fixture
def written(tmp_path):
    def run(data, name="a.jpg"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return run


def segments(data):
    """(start, end) of every segment before the first scan, its marker included."""
    at = 2
    while data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        yield at, end
        at = end


def scan_of(data):
    return [end for _, end in segments(data)][-1]


@pytest.mark.parametrize("before", [b"\xff", b"\xff\xff\xff", b"\x12", b"\x12\x34\xff\x00\x56" * 9])
@pytest.mark.parametrize("progressive", [False, True])
def test_what_stands_before_a_restart_marker_is_passed_over_by_every_crop(written, pixels_of, before, progressive):
    data = encoded(photo(96, 80), quality=85, restart_marker_blocks=2, progressive=progressive)
    start = scan_of(data)
    data = data[:start] + re.sub(rb"(\xff[\xd0-\xd7])", lambda m: before + m[1], data[start:])
    path = written(data)
    whole = pillow(path)
    for w, h, x, y in ((96, 80, 0, 0), (16, 16, 80, 64), (1, 1, 50, 79), (96, 8, 0, 33), (8, 80, 40, 0)):
        assert difference(pixels_of(path, "--crop", f"{w}x{h}+{x}+{y}"), whole[y : y + h, x : x + w]) == 0


@pytest.mark.parametrize("fill", [1, 7])
def test_fill_bytes_before_a_stuffed_byte_are_passed_over(written, pixels_of, fill):
    data = encoded(photo(96, 80), quality=98)
    start = scan_of(data)
    assert b"\xff\x00" in data[start:]
    want = pixels_of(written(data))  # libjpeg-turbo leaves coefficients of its first attempt behind there
    path = written(data[:start] + data[start:].replace(b"\xff\x00", b"\xff" * fill + b"\xff\x00"))
    assert difference(pixels_of(path), want) == 0


@pytest.mark.parametrize("progressive", [False, True])
def test_cmyk_without_adobes_marker_is_inverted_like_any_other(written, pixels_of, progressive):
    data = encoded(photo(64, 48, mode="CMYK"), quality=90, subsampling=0, progressive=progressive)
    for start, end in list(segments(data)):
        if data[start : start + 2] == b"\xff\xee":
            data = data[:start] + data[end:]
            break
    assert b"Adobe" not in data
    path = written(data)
    assert difference(pixels_of(path), pillow(path)) <= 1


@pytest.mark.parametrize("length", [0, 1])
def test_a_comment_of_no_length_is_an_empty_one(written, pixels_of, length):
    data = encoded(photo(40, 30))
    path = written(data[:2] + b"\xff\xfe" + struct.pack(">H", length) + data[2:])
    assert difference(pixels_of(path), pillow(path)) == 0


@pytest.mark.parametrize(
    ("code", "bits", "word"),
    [(0xC3, 8, "lossless"), (0xCB, 8, "lossless"), (0xC5, 8, "hierarchical"), (0xC7, 8, "hierarchical")]
    + [(0xCE, 8, "hierarchical"), (0xC0, 12, "12 bits"), (0xC1, 12, "12 bits"), (0xC2, 16, "16 bits")],
)
def test_other_processes_and_widths_are_unsupported_not_corrupt(run_leat, written, code, bits, word):
    data = bytearray(encoded(photo(32, 32)))
    frame = data.index(b"\xff\xc0")
    data[frame + 1], data[frame + 4] = code, bits
    for mode in ("exact", "fast"):
        done = run_leat("image", written(bytes(data)), "--mode", mode, "--resize", "8x8", "-o", "-", status=2)
        assert word in done.stderr


def test_a_hierarchical_file_is_known_by_its_first_marker(run_leat, written):
    data = encoded(photo(32, 32))
    frame = data.index(b"\xff\xc0")
    header = bytearray(data[frame : frame + 19])
    header[1] = 0xDE
    done = run_leat("image", written(data[:2] + bytes(header) + data[2:]), "-o", "-", status=2)
    assert "hierarchical" in done.stderr


class Bits:
    """Bits of a scan, most significant first, with stuffed bytes."""

    def __init__(self):
        self.text = ""

    def add(self, value, count):
        self.text += f"{value:0{count}b}" if count else ""

    def bytes(self):
        text = self.text + "1" * (-len(self.text) % 8)
        return bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8)).replace(b"\xff", b"\xff\x00")


def table(kind, lengths):
    """A DHT segment: {symbol: length}, codes given out in this order of lengths."""
    counts = [sum(1 for v in lengths.values() if v == n) for n in range(1, 17)]
    symbols = [s for n in range(1, 17) for s, v in lengths.items() if v == n]
    body = bytes([kind, *counts, *symbols])
    return b"\xff\xc4" + struct.pack(">H", len(body) + 2) + body


def gray_file(dc, ac, scan, progressive=False):
    """One block of 8x8, its tables and its scan."""
    out = b"\xff\xd8\xff\xdb" + struct.pack(">HB", 67, 0) + bytes([8] * 64)
    out += b"\xff" + (b"\xc2" if progressive else b"\xc0") + struct.pack(">HBHHBBBB", 11, 8, 8, 8, 1, 1, 0x11, 0)
    out += dc + ac
    if progressive:
        out += b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 0, 0, 0) + b"\x3f"
        out += b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 1, 63, 0)
    else:
        out += b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 0, 63, 0)
    return out + scan + b"\xff\xd9"


@pytest.mark.parametrize("last", [0x61, 0x71, 0xF1, 0xF0])
@pytest.mark.parametrize("progressive", [False, True])
def test_symbols_that_run_over_the_end_of_a_block_are_damage(run_leat, written, last, progressive):
    """56 places, then 8 more, which are too many by one, or 16."""
    dc, ac = table(0x00, {0: 2}), table(0x10, {0xF0: 2, 0x71: 2, 0xF1: 2, 0x61: 3})
    codes = {0xF0: (0, 2), 0x71: (1, 2), 0xF1: (2, 2), 0x61: (6, 3)}
    bits = Bits()
    if not progressive:
        bits.add(0, 2)
    for symbol in (0xF0, 0xF0, 0xF0, 0x71, last):
        bits.add(*codes[symbol])
        bits.add(1, symbol & 15)
    path = written(gray_file(dc, ac, bits.bytes(), progressive))
    done = run_leat("image", path, "-o", "-", text=False, status=0 if last == 0x61 else 6)
    assert (b"run over the end" in done.stderr) == (last != 0x61)
    run_leat("image", path, "-o", "-", "--damage", "rows", text=False, status=0)


def test_a_symbol_without_a_coefficient_ends_its_block(written, pixels_of):
    dc, ac = table(0x00, {0: 2}), table(0x10, {0x30: 2, 0x01: 2, 0x00: 2})
    bits = Bits()
    for code, count in ((0, 2), (1, 2), (1, 1), (0, 2)):
        bits.add(code, count)
    path = written(gray_file(dc, ac, bits.bytes()))
    assert difference(pixels_of(path), pillow(path)) == 0


def test_tables_that_no_code_can_have_are_refused_as_pillow_refuses_them(run_leat, written):
    fine = table(0x10, {0x00: 2, 0x01: 2})
    for dc, ac in ((table(0x00, {0: 1, 1: 1}), fine), (table(0x00, {0x20: 2, 0: 2}), fine)):
        path = written(gray_file(dc, ac, b"\x00" * 4))
        with pytest.raises(OSError, match="broken data stream"):
            Image.open(path).load()
        run_leat("image", path, "-o", "-", status=6)


@pytest.mark.parametrize("progressive", [False, True])
def test_more_than_ten_blocks_to_an_mcu_are_refused_as_pillow_refuses_them(run_leat, written, progressive):
    data = bytearray(encoded(Image.new("RGB", (16, 16), (128, 128, 128)), subsampling=0, progressive=progressive))
    frame = data.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    for component in range(3):
        data[frame + 11 + 3 * component] = 0x22
    if not progressive:  # twelve blocks of nothing, so that the data do not end too early
        scan = data.index(b"\xff\xda")
        bits = "001010" * 4 + "0000" * 8
        data[scan + 14 :] = int(bits, 2).to_bytes(len(bits) // 8, "big") + b"\xff\xd9"
    path = written(bytes(data))
    with pytest.raises(OSError, match="broken data stream"):
        Image.open(path).load()
    done = run_leat("image", path, "-o", "-", status=6)
    assert "ampling factors" in done.stderr


def test_many_scans_are_decoded(written, pixels_of):
    """Scans of single coefficients and bits, as an optimiser may leave them."""
    data = encoded(photo(48, 40).convert("L"), quality=90, progressive=True)
    scan = data.index(b"\xff\xda")
    empty = table(0x10, {0x00: 2})
    blocks = 6 * 5
    extra = b""
    for _ in range(190):  # an end of block for every one, refining nothing
        bits = Bits()
        for _ in range(blocks):
            bits.add(0, 2)
        extra += b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 63, 63, 0) + bits.bytes()
    path = written(data[:scan] + data[scan:-2] + empty + extra + b"\xff\xd9")
    assert data.count(b"\xff\xda") < 20
    assert difference(pixels_of(path, "--damage", "rows"), pillow(path)) == 0


def exif_of(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif.tobytes()


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_with(data, *chunks, behind=False):
    at = data.index(b"IEND") - 4 if behind else data.index(b"IDAT") - 4
    return data[:at] + b"".join(chunks) + data[at:]


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'
XMP_ELEMENT = b"<x:xmpmeta><tiff:Orientation>%d</tiff:Orientation></x:xmpmeta>"


def profile(value):
    body = exif_of(value)
    return b"\nexif\n%8d\n" % len(body) + b"\n".join([body.hex().encode()]) + b"\n"


def itxt(xmp, packed):
    text = zlib.compress(xmp) if packed else xmp
    return chunk(b"iTXt", b"XML:com.adobe.xmp\0" + bytes([packed, 0]) + b"\0\0" + text)


PNGS = {
    "behind": lambda d, v: png_with(d, chunk(b"eXIf", exif_of(v)[6:]), behind=True),
    "text": lambda d, v: png_with(d, chunk(b"tEXt", b"Raw profile type exif\0" + profile(v))),
    "packed": lambda d, v: png_with(d, chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(v)))),
    "packed behind": lambda d, v: png_with(
        d, chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(v))), behind=True
    ),
    "xmp": lambda d, v: png_with(d, itxt(XMP % v, False)),
    "xmp packed": lambda d, v: png_with(d, itxt(XMP_ELEMENT % v, True)),
    "xmp against exif": lambda d, v: png_with(d, itxt(XMP % 2, False), chunk(b"eXIf", exif_of(v)[6:])),
}


@pytest.mark.parametrize("value", [3, 6, 8])
@pytest.mark.parametrize("kind", PNGS)
def test_a_png_says_its_orientation_wherever_pillow_finds_it(written, pixels_of, kind, value):
    path = written(PNGS[kind](encoded(photo(31, 22), "PNG"), value), "a.png")
    image = Image.open(path)
    image.load()
    upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert upright.shape != (22, 31, 3) or value == 3
    assert difference(pixels_of(path, "--orientation", "upright"), upright) == 0


@pytest.mark.parametrize("place", ["before", "behind the frame", "xmp", "two"])
def test_a_jpeg_says_its_orientation_wherever_pillow_finds_it(written, pixels_of, place):
    data = encoded(photo(31, 22), quality=95)

    def app1(body):
        return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body

    frame = data.index(b"\xff\xc0")
    added, at = {
        "before": (app1(exif_of(6)), 2),
        "behind the frame": (app1(exif_of(8)), frame + 19),
        "xmp": (app1(b"http://ns.adobe.com/xap/1.0/\0" + XMP % 5), 2),
        "two": (app1(exif_of(6)) + app1(exif_of(3)), 2),
    }[place]
    path = written(data[:at] + added + data[at:])
    upright = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
    assert upright.shape == (31, 22, 3)
    assert difference(pixels_of(path, "--orientation", "upright"), upright) == 0


def test_a_webp_says_its_orientation_in_xmp_too(save, pixels_of):
    path = save(photo(31, 22), "a.webp", lossless=True, xmp=XMP % 6)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
    assert upright.shape == (31, 22, 3)
    assert difference(pixels_of(path, "--orientation", "upright"), upright) == 0


def test_a_png_may_say_much_beside_its_pixels_up_to_a_limit(run_leat, written, pixels_of):
    data = encoded(photo(20, 20), "PNG")
    path = written(png_with(data, *[chunk(b"tEXt", b"Comment\0%d" % i) for i in range(900)]), "a.png")
    assert difference(pixels_of(path), np.asarray(photo(20, 20))) == 0
    path = written(png_with(data, chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(40 << 20)))), "a.png")
    for damage in ("error", "rows"):
        assert "more beside its pixels" in run_leat("image", path, "--damage", damage, "-o", "-", status=7).stderr
