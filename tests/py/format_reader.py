"""A reader of dataset format 1 in plain Python, written from docs/format.md alone. Slow and strict.

dataset = Dataset(folder)
for sample in dataset: sample.number, sample.key, sample.values["jpg"]
"""

import hashlib
import json
import re
import struct
from pathlib import Path

import xxhash

CELLS = {1: ("bytes", 8), 2: ("image", 24), 3: ("int", 8), 4: ("string", 8)}
IMAGE = ["width", "height", "decoded", "kind", "channels", "orientation", "flags"]


ABSENT = "absent"


class NeedsNewer(Exception):
    """The dataset is sound, and uses something that this reader does not know."""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def padded(n):
    return (n + 7) // 8 * 8


class Field:
    def __init__(self, name, kind, encoding, needs, cell_bytes, cell_at, about):
        self.name, self.kind, self.encoding, self.needs = name, kind, encoding, needs
        self.cell_bytes, self.cell_at, self.about = cell_bytes, cell_at, about
        self.optional = bool(needs & 1)
        self.readable = kind in CELLS and encoding == 0 and not needs & ~1


def read_schema(data):
    n, needs = struct.unpack_from("<II", data)
    if needs:
        raise NeedsNewer(f"the schema: {needs:#x}")
    at, cell_at, fields = 8, 0, []
    assert len(data) % 8 == 0
    for _ in range(n):
        record, kind, encoding, needs, _, cell_bytes, name_n, about_n = struct.unpack_from("<IHH5I", data, at)
        assert record % 8 == 0
        assert record >= 32 + name_n + about_n
        name_at = at + 32
        name = data[name_at : name_at + name_n].decode("ascii")
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", name)
        assert name not in [f.name for f in fields]
        assert cell_bytes % 8 == 0
        assert cell_bytes <= 4096
        about = data[name_at + name_n : name_at + name_n + about_n]
        at += record
        assert at <= len(data)
        field = Field(name, kind, encoding, needs, cell_bytes, cell_at, json.loads(about) if about else None)
        assert not field.readable or CELLS[kind][1] <= cell_bytes
        fields.append(field)
        cell_at += cell_bytes
    return fields, cell_at


def read_cell(field, row, chunk, data_at):
    """A field's value: ABSENT where there is none, None where it cannot be read."""
    cell = row[field.cell_at : field.cell_at + field.cell_bytes]
    if not field.readable:
        return None
    if field.kind == 3:
        value = struct.unpack_from("<q", cell)[0]
        return ABSENT if field.optional and value == -(1 << 63) else value
    offset, size = struct.unpack_from("<II", cell)
    if field.optional and offset == 0 and size == 0:
        return ABSENT
    assert data_at <= offset
    assert offset + size <= len(chunk)
    data = chunk[offset : offset + size]
    return (data, dict(zip(IMAGE, struct.unpack_from("<3I4B", cell, 8)))) if field.kind == 2 else data


def read_head(data, magic, head_min):
    """What roots and chunks begin with; returns the bytes of the head."""
    found, form, head, size, needs, _flags = struct.unpack_from("<8sIIQQQ", data)
    assert found == magic
    if form != 1:
        raise NeedsNewer(f"format {form}")
    assert size == len(data)
    assert head >= head_min
    assert head % 8 == 0
    return head, needs


class Chunk:
    """One chunk: number, samples, schema, rows, keys and values; everything it carries is checked."""

    def __init__(self, data):
        head, needs = read_head(data, b"leat-chk", 128)
        assert struct.unpack_from("<I", data, head - 4)[0] == crc32c(data[: head - 4])
        if needs:
            raise NeedsNewer(f"the chunk: {needs:#x}")
        n, schema_n, self.packing, self.number, self.total, body = struct.unpack_from("<II16sIIQ", data, 40)
        assert n >= 1
        assert body == xxhash.xxh3_64_intdigest(data[head:])
        self.schema = data[head : head + schema_n]
        fields, row_n = read_schema(self.schema)
        at = head + schema_n
        self.rows = [data[at + i * row_n : at + (i + 1) * row_n] for i in range(n)]
        at += n * row_n
        ends = struct.unpack_from(f"<{n}I", data, at)
        at += padded(4 * n)
        self.keys = [data[at + a : at + b] for a, b in zip((0, *ends), ends)]
        at += ends[-1]
        self.values = [{f.name: read_cell(f, row, data, at) for f in fields} for row in self.rows]


class Root:
    def __init__(self, data):
        at, needs = read_head(data, b"leat-snp", 192)
        if needs:
            raise NeedsNewer(f"the root: {needs:#x}")
        (chunks, schema_n, self.samples, self.bytes, self.content_id, sections, section_n, packings, packing_n) = (
            struct.unpack_from("<IIQQ32s4I", data, 40)
        )
        (self.block,) = struct.unpack_from("<I", data, 112)
        assert section_n >= 64
        assert packing_n >= 32
        assert section_n % 8 == packing_n % 8 == 0
        assert 4096 <= self.block <= 1 << 20
        assert self.block & (self.block - 1) == 0
        self.sections = []
        for _ in range(sections):
            kind, needs, size, name = struct.unpack_from("<IIQ32s", data, at)
            if needs & 1 and (kind not in (1, 2) or needs & ~1):
                raise NeedsNewer(f"a section of kind {kind}")
            assert kind not in (1, 2) or kind not in [k for k, _, _, _ in self.sections]
            self.sections.append((kind, size, name, needs))
            at += section_n
        self.packings = []  # the packing of each chunk
        for _ in range(packings):
            pack, run = struct.unpack_from("<16sI", data, at)
            self.packings += [pack] * run
            at += packing_n
        assert len(self.packings) == chunks
        self.schema = data[at : at + schema_n]
        at += schema_n
        counts = data[at : at + 4 * chunks]
        self.counts = struct.unpack(f"<{chunks}I", counts)
        at += padded(4 * chunks)
        self.sizes = struct.unpack_from(f"<{chunks}I", data, at)
        at += padded(4 * chunks)
        self.sums = struct.unpack_from(f"<{chunks}Q", data, at)
        at += 8 * chunks
        names = data[at : at + 32 * chunks]
        self.names = [names[32 * i : 32 * (i + 1)] for i in range(chunks)]
        at += 32 * chunks
        self.digests = []
        for _, size, _, _ in self.sections:
            blocks = -(-size // self.block)
            self.digests.append([data[at + 16 * i : at + 16 * (i + 1)] for i in range(blocks)])
            at += 16 * blocks
        assert at <= len(data)
        assert sum(self.counts) == self.samples
        assert sum(self.sizes) == self.bytes
        head = struct.pack("<8sIIQ", b"leat-cid", 1, schema_n, chunks)
        assert hashlib.sha256(head + self.schema + counts + names).digest() == self.content_id


class Sample:
    def __init__(self, number, key, row, values):
        self.number, self.key, self.row, self.values = number, key, row, values


def read_pointer(path):
    pointer = json.loads(path.read_text())
    if pointer["format"] != 1 or pointer.get("needs"):
        raise NeedsNewer(f"{path.name}: {pointer}")
    return pointer


class Dataset:
    """A version of a dataset: the current one, or that with a content id or a name."""

    def __init__(self, folder, id=None, name=None):
        self.folder = Path(folder)
        path = f"leat/versions/{id}" if id else f"leat/names/{name}" if name else "leat/current"
        pointer = read_pointer(self.folder / path)
        self.id, self.root_id = pointer["id"], pointer["root"]
        assert not id or id == self.id
        data = (self.folder / "leat/roots" / self.root_id).read_bytes()
        assert hashlib.sha256(data).hexdigest() == self.root_id
        self.root = Root(data)
        assert self.root.content_id.hex() == self.id
        self.fields, self.row_n = read_schema(self.root.schema)

    def section(self, wanted):
        """A whole section, every block of it verified."""
        for (kind, size, name, needs), digests in zip(self.root.sections, self.root.digests):
            if kind != wanted:
                continue
            if needs & ~1:
                raise NeedsNewer(f"the section of kind {kind}: {needs:#x}")
            data = (self.folder / "leat/sections" / name.hex()).read_bytes()
            assert len(data) == size
            assert hashlib.sha256(data).digest() == name
            for i, digest in enumerate(digests):
                block = data[i * self.root.block : (i + 1) * self.root.block]
                assert hashlib.sha256(block).digest()[:16] == digest
            return data
        return None

    def chunk(self, i):
        name = self.root.names[i]
        data = (self.folder / "leat/chunks" / name.hex()[:2] / name.hex()).read_bytes()
        assert len(data) == self.root.sizes[i]
        assert hashlib.sha256(data).digest() == name
        assert xxhash.xxh3_64_intdigest(data) == self.root.sums[i]
        chunk = Chunk(data)
        assert len(chunk.keys) == self.root.counts[i]
        assert chunk.number == self.root.packings[:i].count(self.root.packings[i])
        assert chunk.schema == self.root.schema
        assert chunk.packing == self.root.packings[i]
        return chunk

    def __iter__(self):
        number = 0
        for i in range(len(self.root.counts)):
            chunk = self.chunk(i)
            for key, row, values in zip(chunk.keys, chunk.rows, chunk.values):
                yield Sample(number, key, row, values)
                number += 1

    def rows(self):
        data = self.section(1)
        assert len(data) == self.root.samples * self.row_n
        return [data[i * self.row_n : (i + 1) * self.row_n] for i in range(self.root.samples)]

    def keys(self):
        data, n = self.section(2), self.root.samples
        assert len(data) >= 24 * n
        ends = struct.unpack_from(f"<{n}Q", data)
        blob = data[24 * n :]
        return [blob[a:b] for a, b in zip((0, *ends), ends)]

    def find(self, key):
        """The first sample with a key, by the index; None when there is none."""
        data, n = self.section(2), self.root.samples
        keys = self.keys()
        entries = [struct.unpack_from("<QQ", data, 8 * n + 16 * i) for i in range(n)]
        assert entries == sorted(entries)
        wanted = xxhash.xxh3_64_intdigest(key)
        for value, sample in entries:
            if value == wanted and keys[sample] == key:
                return sample
        return None
