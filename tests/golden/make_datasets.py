"""Makes the golden datasets but dataset-1, which `leat pack` made, below a folder. They are kept as they are: a test compares.

.venv/bin/python tests/golden/make_datasets.py FOLDER
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))

from format_reader import ABSENT
from format_writer import (
    Elsewhere,
    Field,
    Place,
    chunk_bytes,
    keys_section,
    root_bytes,
    rows_of,
    schema_bytes,
    selection_section,
)

PIXELS = bytes(range(60))
IMAGE = (PIXELS, (640, 480, 640 * 480 * 3, 1, 3, 6, 1))


def shown(value):
    """A value as expected.json has it."""
    if value is ABSENT:
        return None
    return value[0].hex() if isinstance(value, tuple) else value.hex() if isinstance(value, bytes) else value


def expect(folder, versions):
    """versions: {id: (names, samples)}; the readable values of every sample."""
    out = {
        id: {
            "names": names,
            "samples": [[key.hex(), {name: shown(v) for name, v in values.items()}] for key, values in samples],
        }
        for id, (names, samples) in versions.items()
    }
    (folder / "expected.json").write_text(json.dumps(out, indent=1) + "\n")


def make_optional(folder):
    """Every type with values that are there, empty and absent; and numbers that mean absent only where it is optional."""
    fields = [
        Field("image", 2, optional=True),
        Field("cls", 3, {"names": ["cat", "dog"]}, optional=True),
        Field("caption", 4, optional=True),
        Field("raw", 1, optional=True),
        Field("number", 3),
    ]
    full = {"image": IMAGE, "cls": 1, "caption": "ein Hündchen".encode(), "raw": b"\0\1", "number": -(1 << 63)}
    samples = [(b"full", full), (b"none", dict.fromkeys(full, ABSENT) | {"number": 0})]
    for name in ("image", "cls", "caption", "raw"):
        samples.append((b"no " + name.encode(), full | {name: ABSENT, "number": 7}))
    samples.append((b"empty", full | {"caption": b"", "raw": b"", "cls": 0}))
    id = Place(folder).write(fields, [samples[:4], samples[4:]])
    expect(folder, {id: ([], samples)})


def make_keys(folder):
    """Keys that repeat in a chunk and across chunks, samples without one, bytes that are not text."""
    keys = [b"a", b"b", b"a", b"", b"\xff\xfe\n", b"a", b"", b"c" * 300]
    samples = [(key, {"n": i}) for i, key in enumerate(keys)]
    id = Place(folder).write([Field("n", 3)], [samples[:3], samples[3:7], samples[7:]])
    expect(folder, {id: ([], samples)})


def make_bare(folder):
    """A root without any section, in the smallest blocks: all that training needs."""
    samples = [(b"%d" % i, {"text": b"text %d" % i}) for i in range(5)]
    id = Place(folder).write(
        [Field("text", 4)], [samples[:2], samples[2:]], rows=False, keys=False, root={"block": 4096}
    )
    expect(folder, {id: ([], samples)})


def make_versions(folder):
    """Three versions at one place: the second was added to the first, which has another root too."""
    place, fields = Place(folder), [Field("n", 3)]
    schema = schema_bytes(fields)
    first = [(b"%d" % i, {"n": i}) for i in range(6)]
    more = [(b"more %d" % i, {"n": 100 + i}) for i in range(3)]

    def store(parts):
        """parts: (packing, [chunks of samples])"""
        chunks, runs, samples = [], [], []
        for packing, groups in parts:
            runs.append((packing, len(groups)))
            for i, group in enumerate(groups):
                chunks.append((len(group), chunk_bytes(fields, group, packing, i, len(groups))))
                place.put_chunk(chunks[-1][1])
                samples += group
        sections = [
            (1, b"".join(rows_of(c) for _, c in chunks), 0, 0),
            (2, keys_section([k for k, _ in samples]), 0, 0),
        ]
        for _, data, _, _ in sections:
            place.put_section(data)
        return chunks, runs, samples, sections

    a, b = (b"first packing id", [first[:2], first[2:]]), (b"other packing id", [more])
    chunks, runs, samples, sections = store([a])
    place.publish(root_bytes(schema, chunks, sections[1:], runs, block=4096), ["old", "v1.0"], current=False)
    one = place.publish(root_bytes(schema, chunks, sections, runs), ["v1.0"])  # of the same content
    expected = {one: (["old", "v1.0"], samples)}
    chunks, runs, samples, sections = store([b])
    expected[place.publish(root_bytes(schema, chunks, sections, runs), current=False)] = ([], samples)
    chunks, runs, samples, sections = store([a, b])
    expected[place.publish(root_bytes(schema, chunks, sections, runs), ["v2.0"])] = (["v2.0"], samples)
    expect(folder, expected)


def make_selection(folder):
    """Selections of one dataset: with chunks of which all, some and none of the samples count; one by a later writer."""
    place, fields = Place(folder), [Field("n", 3), Field("text", 4)]
    schema = schema_bytes(fields)
    samples = [(b"key %d" % (i % 50), {"n": i, "text": b"text %d" % i}) for i in range(73)]
    cuts = [0, 1, 2, 4, 69, 71, 73]
    groups = [samples[a:b] for a, b in zip(cuts, cuts[1:])]
    runs = [(b"first packing id", 4), (b"other packing id", 2)]
    chunks = []
    for i, group in enumerate(groups):
        (packing, total), number = (runs[0], i) if i < 4 else (runs[1], i - 4)
        chunks.append((len(group), chunk_bytes(fields, group, packing, number, total)))
        place.put_chunk(chunks[-1][1])
    sections = [(1, b"".join(rows_of(c) for _, c in chunks), 0, 0), (2, keys_section([k for k, _ in samples]), 0, 0)]
    expected = {place.publish(root_bytes(schema, chunks, sections, runs)): ([], samples)}
    for name, holds, later in (
        ("thirds", lambda i: i % 3 == 0, {}),
        ("last", lambda i: i == 72, {}),
        ("odd", lambda i: i > 20 and (i % 2 or i > 70), {"head_n": 64, "spare": b"\x5a"}),
    ):
        places = [[i for i in range(b - a) if holds(a + i)] for a, b in zip(cuts, cuts[1:])]
        section = (5, selection_section([n for n, _ in chunks], runs, places, **later), 1, 0)
        for _, data, _, _ in [*sections, section]:
            place.put_section(data)
        root = root_bytes(schema, chunks, [*sections, section], runs, needs=1)
        chosen = [sample for i, sample in enumerate(samples) if holds(i)]
        expected[place.publish(root, [name], current=False)] = ([name], chosen)
    expect(folder, expected)


def make_later(folder):
    """What a later writer may do that this page lets readers ignore, and fields that need a newer reader."""
    fields = [
        Field("text", 4, {"a": 1}, flags=0xFFFFFFFF, spare=0xA5A5A5A5, extra=b"more about the field"),
        Field("wide", 3, cell_bytes=24),
        Field("new-type", 77, cell_bytes=16),
        Field("new-encoding", 2, encoding=3, cell_bytes=8),
        Field("new-bit", 3, needs=1 << 5),
        Field("picture", 2, optional=True, cell_bytes=32),
    ]
    samples = []
    for i in range(5):
        newer = {"new-type": b"\xee" * 16, "new-encoding": b"\xdd" * 8, "new-bit": b"\xcc" * 8}
        values = {"text": b"text %d" % i, "wide": -i, "picture": ABSENT if i == 2 else IMAGE, **newer}
        samples.append((b"key %d" % i, values))
    odd = {
        "schema": schema_bytes(fields, spare=b"\xa5" * 16),
        "chunk": {"head": 168, "spare": b"\xa5", "flags": (1 << 64) - 1},
        "root": {
            "head": 256,
            "spare": b"\xa5",
            "flags": (1 << 64) - 1,
            "section_bytes": 96,
            "packing_bytes": 48,
            "tail": b"a column that nobody knows",
        },
        "more_sections": [(900, b"statistics" * 2000, 0, 0xFFFFFFFF), (7, b"", 2, 0), (900, b"again", 4, 1)],
        "pointer": {"needs": [], "written_by": "a later release"},
    }
    id = Place(folder).write(fields, [samples[:3], samples[3:]], **odd)
    readable = [(key, {name: values[name] for name in ("text", "wide", "picture")}) for key, values in samples]
    expect(folder, {id: ([], readable)})


def make_kinds(folder):
    """Every type of field that the first release did not have, plain and compressed, with values that are empty and absent."""
    array, tokens = {"dtype": "float32", "shape": [None, 3]}, {"dtype": "uint16"}
    fields = [
        Field("w", 5),
        Field("w-maybe", 5, optional=True),
        Field("meta", 6, encoding=1),
        Field("box", 7, array, optional=True),
        Field("fixed", 7, {"dtype": "int8", "shape": [2, 2]}),
        Field("map", 7, {"dtype": "uint8", "shape": [None, 2, None]}, encoding=1),
        Field("scalar", 7, {"dtype": "float64", "shape": []}, encoding=1),
        Field("text", 8, tokens),
        Field("code", 8, {"dtype": "int32"}, encoding=1, optional=True),
        Field("raw", 1, encoding=1),
        Field("caption", 4, encoding=1, optional=True),
    ]
    samples = []
    for i in range(6):
        values = {
            "w": [0.1, -0.0, 1e300, 5e-324, float("inf"), -2.5][i],
            "w-maybe": ABSENT if i % 2 else i / 4,
            "meta": json.dumps({"i": i, "tags": ["a"] * i}).encode() if i else b" " * 40 + b"null",
            "box": ABSENT if i == 2 else (struct.pack(f"<{3 * i}f", *range(3 * i)), (i, 3)),
            "fixed": (bytes([i, 255, 0, 1]), (2, 2)),
            "map": (bytes([i]) * (i * 2 * 100), (i, 2, 100)),
            "scalar": (struct.pack("<d", i / 8), ()),
            "text": struct.pack(f"<{i}H", *range(65535, 65535 - i, -1)),
            "code": ABSENT if i == 3 else struct.pack("<i", -1) * (10 * i),
            "raw": bytes(50 * i),
            "caption": ABSENT if i == 4 else b"x" * (20 * i),
        }
        samples.append((b"key %d" % i, values))
    id = Place(folder).write(fields, [samples[:4], samples[4:]])
    expect(folder, {id: ([], samples)})


def make_indexed(folder):
    """Data that lie in two buckets, whole objects and stretches of them; with a chunk that is stored, in a root that a later
    writer made. `buckets` holds the objects."""
    objects = {
        "pictures": {
            "a/1.jpg": bytes(range(100)),
            "a/2.jpg": b"\xff\xd8 two",
            "odd key %41": b"three",
            "empty.jpg": b"",
        },
        "shards": {"shard-0.tar": b"".join(bytes([i]) * 512 for i in range(20))},
    }
    for bucket, files in objects.items():
        for key, data in files.items():
            path = folder / "buckets" / bucket / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def whole(key, pinned=True):
        data = objects["pictures"][key]
        pin = b'"' + hashlib.md5(data).hexdigest().encode() + b'"'
        return Elsewhere(key.encode(), data, pin=pin if pinned else b"")

    def member(first, n, between=0):
        shard = objects["shards"]["shard-0.tar"]
        before = shard[first * 512 - between : first * 512]
        return Elsewhere(
            b"shard-0.tar", shard[first * 512 : first * 512 + n], offset=first * 512, whole=len(shard), between=before
        )

    numbers = (640, 480, 640 * 480 * 3, 1, 3, 6, 0)
    fields = [Field("jpg", 2), Field("cls", 3), Field("caption", 4, optional=True)]
    pictures = [
        (b"one", {"jpg": (whole("a/1.jpg"), numbers), "cls": -7, "caption": b"in the recipe"}),
        (b"two", {"jpg": (whole("a/2.jpg", pinned=False), numbers), "cls": 2, "caption": ABSENT}),
        (b"", {"jpg": (whole("odd key %41"), numbers), "cls": 3, "caption": b""}),
        (b"empty", {"jpg": (whole("empty.jpg"), (0,) * 7), "cls": 4, "caption": b"nothing"}),
    ]
    members = [
        (b"m1", {"jpg": (member(1, 700), numbers), "cls": 1, "caption": member(4, 30, between=512)}),
        (b"m2", {"jpg": (member(9, 512), numbers), "cls": 0, "caption": member(10, 1)}),
    ]
    stored = [(b"stored", {"jpg": IMAGE, "cls": 9, "caption": b"in a chunk"})]
    chunks = [(0, pictures[:3]), (1, members), (None, stored), (0, pictures[3:])]
    later = {"head": 96, "piece_bytes": 48, "spare": b"\xa5", "flags": (1 << 64) - 1}
    place = Place(folder)
    id = place.index(fields, chunks, ["s3://pictures", "s3://shards"], summed=True, names=["summed"], recipe=later)
    again = place.index(
        fields, chunks, ["s3://pictures", "s3://shards"], recipe=later
    )  # the same, with less known of it
    assert id == again

    def near(values):
        def bytes_of(value):
            return value.data if isinstance(value, Elsewhere) else value

        return {n: (bytes_of(v[0]), v[1]) if isinstance(v, tuple) else bytes_of(v) for n, v in values.items()}

    expect(folder, {id: (["summed"], [(key, near(values)) for _, samples in chunks for key, values in samples])})


def make_all(folder):
    made = {"optional-1": make_optional, "keys-1": make_keys, "bare-1": make_bare, "later-1": make_later}
    made |= {"kinds-1": make_kinds, "indexed-1": make_indexed, "selection-1": make_selection}
    for name, make in {**made, "versions-1": make_versions}.items():
        (folder / name).mkdir(parents=True)
        make(folder / name)


if __name__ == "__main__":
    make_all(Path(sys.argv[1]))
