"""A reader of dataset format 1 in plain Python, written from docs/format.md alone. Slow and strict.

dataset = Dataset(folder)
for sample in dataset: sample.number, sample.key, sample.values["jpg"]
"""

import hashlib
import json
import struct
from pathlib import Path

import xxhash

CELLS = {1: ("bytes", 8), 2: ("image", 24), 3: ("int", 8), 4: ("string", 8)}
IMAGE = ["width", "height", "decoded", "kind", "channels", "orientation", "flags"]


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
    def __init__(self, name, kind, cell_bytes, cell_at, about):
        self.name, self.kind, self.cell_bytes, self.cell_at, self.about = name, kind, cell_bytes, cell_at, about


def read_schema(data):
    (n,) = struct.unpack_from("<I", data)
    at, cell_at, fields = 4, 0, []
    for _ in range(n):
        kind, cell_bytes, name_n, about_n = struct.unpack_from("<4I", data, at)
        at += 16
        name = data[at : at + name_n].decode("ascii")
        about = data[at + name_n : at + name_n + about_n]
        at += name_n + about_n
        assert kind not in CELLS or CELLS[kind][1] == cell_bytes
        fields.append(Field(name, kind, cell_bytes, cell_at, json.loads(about) if about else None))
        cell_at += cell_bytes
    assert padded(at) == len(data)
    assert not any(data[at:])
    return fields, cell_at


def read_cell(field, row, chunk):
    cell = row[field.cell_at : field.cell_at + field.cell_bytes]
    if field.kind == 3:
        return struct.unpack("<q", cell)[0]
    if field.kind not in CELLS:
        return None
    offset, size = struct.unpack_from("<II", cell)
    assert offset + size <= len(chunk)
    data = chunk[offset : offset + size]
    return (data, dict(zip(IMAGE, struct.unpack_from("<3I4B", cell, 8)))) if field.kind == 2 else data


class Chunk:
    """One chunk: number, samples, schema, rows, keys and values; everything it carries is checked."""

    def __init__(self, data):
        magic, form, self.number, n, schema_n, size, self.packing, body, self.total, head = struct.unpack_from(
            "<8s4IQ16sQII", data
        )
        assert magic == b"leat-chk"
        assert form == 1
        assert n >= 1
        assert size == len(data)
        assert body == xxhash.xxh3_64_intdigest(data[64:])
        assert head == crc32c(data[:60])
        self.schema = data[64 : 64 + schema_n]
        fields, row_n = read_schema(self.schema)
        at = 64 + schema_n
        self.rows = [data[at + i * row_n : at + (i + 1) * row_n] for i in range(n)]
        at += n * row_n
        ends = struct.unpack_from(f"<{n}I", data, at)
        at += padded(4 * n)
        self.keys = [data[at + a : at + b] for a, b in zip((0, *ends), ends)]
        self.values = [{f.name: read_cell(f, row, data) for f in fields} for row in self.rows]


class Root:
    def __init__(self, data):
        (magic, form, chunks, self.samples, self.bytes, size, schema_n, sections, self.packing, self.block) = (
            struct.unpack_from("<8sIIQQQII16sI", data)
        )
        assert magic == b"leat-snp"
        assert form == 1
        assert size == len(data)
        assert not any(data[68:80])
        at = 80
        self.sections = []
        for _ in range(sections):
            kind, zero, section_n, name = struct.unpack_from("<IIQ32s", data, at)
            assert zero == 0
            self.sections.append((kind, section_n, name))
            at += 48
        self.schema = data[at : at + schema_n]
        at += schema_n
        self.counts = struct.unpack_from(f"<{chunks}I", data, at)
        at += padded(4 * chunks)
        self.sizes = struct.unpack_from(f"<{chunks}I", data, at)
        at += padded(4 * chunks)
        self.sums = struct.unpack_from(f"<{chunks}Q", data, at)
        at += 8 * chunks
        self.names = [data[at + 32 * i : at + 32 * (i + 1)] for i in range(chunks)]
        at += 32 * chunks
        self.digests = {}
        for kind, section_n, _ in self.sections:
            blocks = -(-section_n // self.block)
            self.digests[kind] = [data[at + 16 * i : at + 16 * (i + 1)] for i in range(blocks)]
            at += 16 * blocks
        assert at == len(data)
        assert sum(self.counts) == self.samples
        assert sum(self.sizes) == self.bytes


class Sample:
    def __init__(self, number, key, row, values):
        self.number, self.key, self.row, self.values = number, key, row, values


class Dataset:
    def __init__(self, folder):
        self.folder = Path(folder)
        pointer = json.loads((self.folder / "leat/current").read_text())
        assert pointer["format"] == 1
        self.id = pointer["root"]
        data = (self.folder / "leat/roots" / self.id).read_bytes()
        assert hashlib.sha256(data).hexdigest() == self.id
        self.root = Root(data)
        self.fields, self.row_n = read_schema(self.root.schema)

    def section(self, wanted):
        """A whole section, every block of it verified."""
        for kind, size, name in self.root.sections:
            if kind != wanted:
                continue
            data = (self.folder / "leat/sections" / name.hex()).read_bytes()
            assert len(data) == size
            assert hashlib.sha256(data).digest() == name
            for i, digest in enumerate(self.root.digests[kind]):
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
        assert chunk.number == i
        assert chunk.schema == self.root.schema
        assert chunk.packing == self.root.packing
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
        ends = struct.unpack_from(f"<{n}Q", data)
        blob = data[24 * n :]
        return [blob[a:b] for a, b in zip((0, *ends), ends)]

    def find(self, key):
        """The sample with a key, by the index; None when there is none."""
        data, n = self.section(2), self.root.samples
        keys = self.keys()
        entries = [struct.unpack_from("<QQ", data, 8 * n + 16 * i) for i in range(n)]
        assert entries == sorted(entries)
        wanted = xxhash.xxh3_64_intdigest(key)
        for value, sample in entries:
            if value == wanted and keys[sample] == key:
                return sample
        return None
