"""Makes tests/fuzz/corpus/image: small pictures of every kind the decoders know, whole, damaged and hostile.

The first byte of each file chooses the pipeline (see fuzz_image.c), the rest is the picture. The same pictures go to
corpus/jpeg, png and webp, where the first four bytes choose a crop (see differ.h).
"""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pillow_jxl  # noqa: F401 - Pillow knows JPEG XL then
from PIL import Image

OUT = Path(__file__).resolve().parent / "corpus" / "image"
rng = np.random.default_rng(1)


def photo(mode, size=(33, 25)):
    bands = len(Image.new(mode, (1, 1)).getbands())
    y, x = np.mgrid[0 : size[1], 0 : size[0]]
    base = 100 + 60 * np.sin(x / 5.0) + 40 * np.cos(y / 3.0)
    pixels = base[:, :, None] + rng.uniform(-20, 20, (size[1], size[0], bands))
    pixels = np.clip(pixels, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels if bands > 1 else pixels[:, :, 0], mode)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def oriented(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def patched(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def pictures():
    for subsampling in range(3):
        yield f"jpeg{subsampling}", saved(photo("RGB"), "JPEG", quality=60, subsampling=subsampling)
        yield (
            f"progressive{subsampling}",
            saved(photo("RGB"), "JPEG", quality=60, subsampling=subsampling, progressive=True),
        )
    yield "gray", saved(photo("L"), "JPEG", quality=60)
    yield "cmyk", saved(photo("CMYK"), "JPEG", quality=60)
    yield "restart", saved(photo("RGB"), "JPEG", quality=60, restart_marker_blocks=1)
    yield "exif", saved(photo("RGB"), "JPEG", quality=60, exif=oriented(6))
    for mode in ("L", "LA", "P", "RGB", "RGBA", "1"):
        image = photo("RGB").convert(mode) if mode in ("P", "1") else photo(mode)
        yield f"png_{mode}", saved(image, "PNG")
    yield "png_16", saved(Image.fromarray(np.asarray(photo("L")).astype(np.uint16) * 257), "PNG")
    yield "png_exif", saved(photo("RGB"), "PNG", exif=oriented(5))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 1)
    rows = zlib.compress(bytes(8 * 8 + 15))
    signature = b"\x89PNG\r\n\x1a\n"
    yield "png_interlaced", signature + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    yield "webp_lossy", saved(photo("RGB"), "WEBP", quality=50)
    yield "webp_alpha", saved(photo("RGBA"), "WEBP", quality=50)
    yield "webp_lossless", saved(photo("RGB"), "WEBP", lossless=True)
    yield "webp_exif", saved(photo("RGB"), "WEBP", exif=oriented(7))
    yield "webp_animation", saved(photo("RGBA"), "WEBP", save_all=True, append_images=[photo("RGBA")], lossless=True)
    for mode in ("L", "RGB", "RGBA", "P", "1", "CMYK"):
        image = photo("RGB").convert(mode) if mode in ("P", "1") else photo(mode)
        yield f"tiff_{mode}", saved(image, "TIFF")
    for way in ("tiff_lzw", "packbits", "tiff_jpeg", "tiff_adobe_deflate"):
        yield way, saved(photo("RGB"), "TIFF", compression=way)
    yield "tiff_16", saved(Image.fromarray(np.asarray(photo("L")).astype(np.uint16) * 257), "TIFF")
    for mode in ("L", "RGB", "1"):
        yield f"bmp_{mode}", saved(photo("RGB").convert(mode), "BMP")
    rows = b"\x05\x07\x00\x03\x01\x02\x03\x00\x04\x09\x00\x00\x03\x01\x00\x02\x02\x01\x07\x08\x00\x00\x00\x01"
    header = struct.pack("<IiiHHIIiiII", 40, 12, 6, 1, 8, 1, len(rows), 0, 0, 0, 0)
    yield "bmp_runs", b"BM" + struct.pack("<IHHI", 54 + 1024 + len(rows), 0, 0, 54 + 1024) + header + bytes(1024) + rows
    yield "gif", saved(photo("RGB").quantize(20), "GIF")
    yield "gif_interlaced", saved(photo("RGB").quantize(250), "GIF", interlace=1)
    yield "gif_alpha", saved(photo("RGBA"), "GIF", save_all=True, append_images=[photo("RGBA")])
    yield "avif", saved(photo("RGB"), "AVIF", quality=50)
    yield "avif_alpha", saved(photo("RGBA"), "AVIF", quality=50)
    yield "jxl", saved(photo("RGB"), "JXL", quality=70)
    yield "jxl_lossless", saved(photo("RGBA"), "JXL", lossless=True)
    steps = np.cumsum(rng.choice([-9, 4], (25, 33)), axis=1) % 256
    image = photo("RGB")
    image.putalpha(Image.fromarray(steps.astype(np.uint8)))
    yield "webp_filtered", saved(image, "WEBP", quality=50, method=0)
    data = saved(photo("RGB"), "JPEG", quality=60, restart_marker_blocks=1)
    yield "fill", data.replace(b"\xff\xd1", b"\xff\xff\xff\xd1").replace(b"\xff\xd2", b"\x12\xff\xd2")


def hostile(name, data):
    """Sizes that lie, tables that are cut, and an end that comes early."""
    yield "cut", data[: len(data) * 2 // 3]
    if name.startswith(("jpeg", "progressive")):
        frame = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
        yield "huge", patched(data, frame + 5, b"\xff\xff\xff\xff")
        yield "wide", patched(data, frame + 5, b"\x00\x19\x0f\xff")
        yield "arithmetic", patched(data, frame + 1, b"\xc9")
        scan = data.find(b"\xff\xda")
        yield "scans", data[:scan] + data[scan : scan + 40] * 30
    if name.startswith("png"):
        yield "huge", patched(data, 16, b"\x7f\xff\xff\xff\x7f\xff\xff\xff")
    if name.startswith("webp"):
        yield "size", patched(data, 4, b"\xff\xff\xff\x7f")


def kind_of(data):
    kinds = {b"\xff\xd8": "jpeg", b"\x89P": "png", b"RI": "webp"}
    return kinds.get(data[:2])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for number, (name, data) in enumerate(pictures()):
        kind = kind_of(data)
        differ = OUT.parent / kind if kind else None
        crop = bytes([number * 37 % 256, number * 91 % 256, number * 53 % 256, number * 17 % 256])
        (OUT / name).write_bytes(bytes([number % 8]) + data)
        if differ:
            differ.mkdir(exist_ok=True)
            (differ / name).write_bytes(crop + data)
        for how, bad in hostile(name, data):
            (OUT / f"{name}_{how}").write_bytes(bytes([(number + 1) % 8]) + bad)
            if differ:
                (differ / f"{name}_{how}").write_bytes(crop[::-1] + bad)


if __name__ == "__main__":
    main()
