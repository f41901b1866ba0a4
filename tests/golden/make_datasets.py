"""Makes the golden datasets but dataset-1, which `leat pack` made, below a folder. They are kept as they are: a test compares.

.venv/bin/python tests/golden/make_datasets.py FOLDER
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))

from format_reader import ABSENT
from format_writer import Field, Place, chunk_bytes, keys_section, root_bytes, rows_of, schema_bytes

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


def make_all(folder):
    made = {"optional-1": make_optional, "keys-1": make_keys, "bare-1": make_bare, "later-1": make_later}
    for name, make in {**made, "versions-1": make_versions}.items():
        (folder / name).mkdir(parents=True)
        make(folder / name)


if __name__ == "__main__":
    make_all(Path(sys.argv[1]))
