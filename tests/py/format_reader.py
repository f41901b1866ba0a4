"""A reader of dataset format 1 in plain Python, written from docs/format.md alone. Slow and strict.

dataset = Dataset(folder)  # or Dataset(folder, stores={"s3://bucket": folder of its objects})
for sample in dataset: sample.number, sample.key, sample.values["jpg"]
"""

import hashlib
import json
import math
import re
import struct
from pathlib import Path

import xxhash

CELLS = {1: ("bytes", 8), 2: ("image", 24), 3: ("int", 8), 4: ("string", 8)}
CELLS |= {5: ("float", 8), 6: ("json", 8), 7: ("array", 8), 8: ("tokens", 8)}
ZSTD_TYPES = {1, 4, 6, 7, 8}
DTYPES = {"bool": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
DTYPES |= {f"{sign}int{8 * n}": n for sign in ("", "u") for n in (1, 2, 4, 8)}
FLOAT_ABSENT = (1 << 64) - 1
IMAGE = ["width", "height", "decoded", "kind", "channels", "orientation", "flags"]


ABSENT = "absent"
KINDS = (1, 2, 3, 4, 5)  # of sections


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
        self.readable = kind in CELLS and not needs & ~1
        self.readable &= encoding == 0 or (encoding == 1 and kind in ZSTD_TYPES)
        self.shape = None
        if kind in (7, 8) and self.readable:
            self.item = (
                DTYPES.get(about["dtype"], 0)
                if kind == 7
                else {"uint16": 2, "uint32": 4, "int32": 4}.get(about["dtype"])
            )
            self.readable = bool(self.item)
        if kind == 7 and self.readable:
            self.shape = about["shape"]
            assert len(self.shape) <= 8
            assert all(n is None or 0 < n < 1 << 32 for n in self.shape)
        self.varying = self.shape.count(None) if self.shape else 0

    def cell_least(self):
        return padded(CELLS[self.kind][1] + (8 if self.encoding == 1 else 0) + 4 * self.varying)


def unzstd(data, raw):
    """A frame of raw and RLE blocks, which is what the writer here makes; others need a library."""
    magic, descriptor = struct.unpack_from("<IB", data)
    assert magic == 0xFD2FB528
    assert descriptor == 0xA0  # one segment, a content size of 4 bytes, no checksum
    assert struct.unpack_from("<I", data, 5)[0] == raw
    at, out, last = 9, b"", False
    while not last:
        head = int.from_bytes(data[at : at + 3], "little")
        last, kind, n = head & 1, head >> 1 & 3, head >> 3
        at += 3
        assert kind in (0, 1)
        out += data[at : at + n] if kind == 0 else data[at : at + 1] * n
        at += n if kind == 0 else 1
    assert at == len(data)
    return out


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
        assert not field.readable or field.cell_least() <= cell_bytes
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
    if field.kind == 5:
        absent = field.optional and struct.unpack_from("<Q", cell)[0] == FLOAT_ABSENT
        return ABSENT if absent else struct.unpack_from("<d", cell)[0]
    offset, size = struct.unpack_from("<II", cell)
    if field.optional and offset == 0 and size == 0:
        return ABSENT
    assert data_at <= offset
    assert offset + size <= len(chunk)
    data, at = chunk[offset : offset + size], 8
    if field.encoding == 1:
        raw, packed = struct.unpack_from("<II", cell, at)
        data, at = unzstd(data, raw) if packed else data, at + 8
        assert len(data) == raw
        assert packed in (0, 1)
    if field.kind == 8:
        assert len(data) % field.item == 0
    if field.kind == 7:
        sizes = iter(struct.unpack_from(f"<{field.varying}I", cell, at))
        shape = [next(sizes) if n is None else n for n in field.shape]
        assert len(data) == field.item * math.prod(shape)
        return data, shape
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

    def __init__(self, data, lead=None):
        """lead: of a chunk that is made of a recipe, the bytes before the pieces' data."""
        head, needs = read_head(data, b"leat-chk", 128)
        assert struct.unpack_from("<I", data, head - 4)[0] == crc32c(data[: head - 4])
        if needs & ~1:
            raise NeedsNewer(f"the chunk: {needs:#x}")
        n, schema_n, self.packing, self.number, self.total, body = struct.unpack_from("<II16sIIQ", data, 40)
        assert n >= 1
        assert bool(needs & 1) == (lead is not None)
        if lead is None:
            assert body == xxhash.xxh3_64_intdigest(data[head:])
        else:
            assert struct.unpack_from("<I", data, 80)[0] == lead
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


class Recipe:
    """What a chunk is made of: `lead` without the schema, and pieces (key, offset, length, object bytes, pin)."""

    def __init__(self, data, schema):
        at, needs = read_head(data, b"leat-rcp", 72)
        if needs:
            raise NeedsNewer(f"the recipe: {needs:#x}")
        self.source, pieces, piece_n, lead, data_n, text_n = struct.unpack_from("<IIIIQI", data, 40)
        assert piece_n >= 32
        assert piece_n % 8 == lead % 8 == 0
        (head,) = struct.unpack_from("<I", data, at + 12)
        rest = data[at + head : at + lead - len(schema)]
        self.lead = data[at : at + head] + schema + rest
        assert len(self.lead) == lead
        at += lead - len(schema)
        texts = data[at + pieces * piece_n :][:text_n]
        assert len(texts) == text_n
        self.pieces = []
        for i in range(pieces):
            offset, whole, length, text_at, key_n, pin_n = struct.unpack_from("<QQIIHH", data, at + i * piece_n)
            assert 0 < length <= whole - offset
            text = texts[text_at : text_at + key_n + pin_n]
            assert len(text) == key_n + pin_n
            assert 0 not in text
            assert key_n > 0
            self.pieces.append((text[:key_n], offset, length, whole, text[key_n:]))
        assert sum(length for _, _, length, _, _ in self.pieces) == data_n


def read_sources(data):
    """URLs of stores, by number."""
    (n,) = struct.unpack_from("<I", data)
    at, urls = 8, []
    for _ in range(n):
        record, needs, url_n = struct.unpack_from("<III", data, at)
        if needs:
            raise NeedsNewer(f"a source: {needs:#x}")
        assert record % 8 == 0
        assert record >= 16 + url_n
        urls.append(data[at + 16 : at + 16 + url_n].decode())
        at += record
    assert at <= len(data)
    return urls


class Root:
    def __init__(self, data):
        at, needs = read_head(data, b"leat-snp", 192)
        if needs & ~1:
            raise NeedsNewer(f"the root: {needs:#x}")
        announced = bool(needs & 1)
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
            if needs & 1 and (kind not in KINDS or needs & ~1):
                raise NeedsNewer(f"a section of kind {kind}")
            assert kind not in KINDS or kind not in [k for k, _, _, _ in self.sections]
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
        selection = b"".join(name for kind, _, name, _ in self.sections if kind == 5)
        assert bool(selection) == announced
        assert hashlib.sha256(head + self.schema + counts + names + selection).digest() == self.content_id
        self.selected = struct.unpack_from("<Q", data, 120)[0] if announced else self.samples


def read_selection(data, root):
    """For each chunk, the places of its samples that count."""
    magic, form, at, selected, samples, chunks, packings = struct.unpack_from("<8sIIQQII", data)
    assert magic == b"leat-sel"
    if form != 1:
        raise NeedsNewer(f"the selection: format {form}")
    assert at >= 48
    assert at % 8 == 0
    assert (selected, samples, chunks) == (root.selected, root.samples, len(root.counts))
    packs = []
    for _ in range(packings):
        pack, run = struct.unpack_from("<16sI", data, at)
        packs += [pack] * run
        at += 24
    assert packs == root.packings
    counts = struct.unpack_from(f"<{chunks}I", data, at)
    assert sum(counts) == selected
    at += padded(4 * chunks)
    places = []
    for count, n in zip(counts, root.counts):
        if count in (0, n):
            places.append(list(range(count)))
            continue
        size = (n + 63) // 64 * 8
        bits = int.from_bytes(data[at : at + size], "little")
        places.append([i for i in range(size * 8) if bits >> i & 1])
        assert len(places[-1]) == count
        assert places[-1][-1] < n
        at += size
    assert at == len(data)
    return places


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

    def __init__(self, folder, id=None, name=None, stores=None):
        self.folder = Path(folder)
        self.stores = stores or {}
        path = f"leat/versions/{id}" if id else f"leat/names/{name}" if name else "leat/current"
        pointer = read_pointer(self.folder / path)
        self.id, self.root_id = pointer["id"], pointer["root"]
        assert not id or id == self.id
        data = (self.folder / "leat/roots" / self.root_id).read_bytes()
        assert hashlib.sha256(data).hexdigest() == self.root_id
        self.root = Root(data)
        assert self.root.content_id.hex() == self.id
        self.fields, self.row_n = read_schema(self.root.schema)
        self.recipes = self.section(3)
        self.sources = read_sources(self.section(4)) if self.recipes is not None else []
        selection = self.section(5)
        self.places = read_selection(selection, self.root) if selection else [range(n) for n in self.root.counts]

    def __len__(self):
        return self.root.selected

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

    def recipe(self, i):
        """The recipe of a chunk; None for one that is stored."""
        if self.recipes is None:
            return None
        start, end = struct.unpack_from("<2Q", self.recipes, 8 * i)
        assert 8 * (len(self.root.names) + 1) <= start <= end <= len(self.recipes)
        data = self.recipes[start:end]
        assert not data or hashlib.sha256(data).digest() == self.root.names[i]
        return Recipe(data, self.root.schema) if data else None

    def make(self, i, read):
        """A chunk that is made of a recipe."""
        store = Path(self.stores[self.sources[read.source]])
        data = b""
        for key, offset, length, whole, _ in read.pieces:
            found = (store / key.decode().lstrip("/")).read_bytes()
            assert len(found) == whole
            data += found[offset : offset + length]
        assert len(read.lead) + len(data) == self.root.sizes[i]
        assert self.root.sums[i] in (0, xxhash.xxh3_64_intdigest(data))
        return self.check(i, Chunk(read.lead + data, lead=len(read.lead)))

    def chunk(self, i):
        name = self.root.names[i]
        recipe = self.recipe(i)
        if recipe:
            return self.make(i, recipe)
        data = (self.folder / "leat/chunks" / name.hex()[:2] / name.hex()).read_bytes()
        assert len(data) == self.root.sizes[i]
        assert hashlib.sha256(data).digest() == name
        assert xxhash.xxh3_64_intdigest(data) == self.root.sums[i]
        return self.check(i, Chunk(data))

    def check(self, i, chunk):
        assert len(chunk.keys) == self.root.counts[i]
        assert chunk.number == self.root.packings[:i].count(self.root.packings[i])
        assert chunk.schema == self.root.schema
        assert chunk.packing == self.root.packings[i]
        return chunk

    def __iter__(self):
        number = 0
        for i, places in enumerate(self.places):
            chunk = self.chunk(i) if places else None
            for place in places:
                yield Sample(number, chunk.keys[place], chunk.rows[place], chunk.values[place])
                number += 1

    def numbers(self):
        """Where the samples that count lie in the sections, which have all of them."""
        found, first = [], 0
        for places, n in zip(self.places, self.root.counts):
            found += [first + place for place in places]
            first += n
        return found

    def rows(self):
        data = self.section(1)
        assert len(data) == self.root.samples * self.row_n
        return [data[i * self.row_n : (i + 1) * self.row_n] for i in self.numbers()]

    def keys(self):
        data, n = self.section(2), self.root.samples
        assert len(data) >= 24 * n
        ends = struct.unpack_from(f"<{n}Q", data)
        blob = data[24 * n :]
        keys = [blob[a:b] for a, b in zip((0, *ends), ends)]
        return [keys[i] for i in self.numbers()]

    def find(self, key):
        """The first sample with a key, by the index; None when there is none."""
        data, n = self.section(2), self.root.samples
        keys = dict(zip(self.numbers(), self.keys()))
        entries = [struct.unpack_from("<QQ", data, 8 * n + 16 * i) for i in range(n)]
        assert entries == sorted(entries)
        wanted = xxhash.xxh3_64_intdigest(key)
        for value, sample in entries:
            if value == wanted and keys.get(sample) == key:
                return self.numbers().index(sample)
        return None
