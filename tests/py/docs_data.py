"""Small data for the pages of docs/: `python -m docs_data KIND PLACE [COUNT]` in their hidden blocks."""

import io
import json
import sys
import tarfile
from pathlib import Path

import numpy

CLASSES = ("cat", "dog", "fox")


def jpeg(draw, side=None):
    from PIL import Image

    height, width = (side, side) if side else draw.integers(40, 80, size=2)
    coarse = draw.integers(0, 256, size=(height // 8 + 1, width // 8 + 1, 3), dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((int(width), int(height))).save(out, "JPEG", quality=90)
    return out.getvalue()


def pictures(place, count):
    """JPEGs in a folder per class."""
    draw = numpy.random.default_rng(1)
    for i in range(count):
        path = Path(place) / CLASSES[i % len(CLASSES)] / f"{i:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(draw))


def pairs(place, count):
    """0001.jpg with its 0001.txt and 0001.json."""
    draw = numpy.random.default_rng(2)
    Path(place).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        stem = Path(place) / f"{i:04}"
        stem.with_suffix(".jpg").write_bytes(jpeg(draw))
        stem.with_suffix(".txt").write_text(f"picture number {i}")
        stem.with_suffix(".json").write_text(json.dumps({"number": i}))


def table(place, count):
    """Pictures in PLACE, all in one folder, and PLACE.csv that says what they are."""
    draw = numpy.random.default_rng(3)
    Path(place).mkdir(parents=True, exist_ok=True)
    rows = ["path,species,weight"]
    for i in range(count):
        (Path(place) / f"{i:04}.jpg").write_bytes(jpeg(draw))
        rows.append(f"{i:04}.jpg,{CLASSES[i % len(CLASSES)]},{i / 10 + 0.05}")
    Path(f"{place}.csv").write_text("\n".join(rows) + "\n")


def shards(place, count):
    """WebDataset's tar shards PLACE/train-000000.tar … 000003.tar: jpg and cls."""
    draw = numpy.random.default_rng(4)
    Path(place).mkdir(parents=True, exist_ok=True)
    for shard in range(4):
        with tarfile.open(Path(place) / f"train-{shard:06}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for i in range(shard, count, 4):
                for ending, data in (("jpg", jpeg(draw)), ("cls", str(i % 10).encode())):
                    member = tarfile.TarInfo(f"{i:06}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def tokens(place, count):
    """A file of `count` thousand tokens, as nanoGPT writes them: uint16, documents that end with 50256."""
    draw = numpy.random.default_rng(5)
    values = draw.integers(0, 50256, size=count * 1000).astype("<u2")
    values[draw.integers(0, len(values), size=len(values) // 300)] = 50256
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).write_bytes(values.tobytes())


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 96)
