"""A writer of dataset format 1 in plain Python, from docs/format.md: for datasets that `leat pack` does not make.

It makes what a later release might (longer heads, spare bytes in use, sections of other kinds) and what nobody
should (a root that says something else than its chunks).
"""

import hashlib
import json
import struct
from pathlib import Path

import xxhash
from format_reader import ABSENT, CELLS, FLOAT_ABSENT, crc32c, padded

IMAGE_CELL = "<III4B"


def pad(data):
    return data + bytes(padded(len(data)) - len(data))


def head(magic, size_of, rest, total, needs=0, flags=0, form=1):
    """The common beginning; `rest` follows it, and the whole head has size_of bytes."""
    data = struct.pack("<8sIIQQQ", magic, form, size_of, total, needs, flags) + rest
    assert len(data) <= size_of
    return data


class Field:
    def __init__(self, name, kind, about=None, optional=False, **odd):
        self.name, self.kind, self.about = name, kind, about
        self.encoding = odd.get("encoding", 0)
        self.needs = odd.get("needs", 1 if optional else 0)
        self.flags = odd.get("flags", 0)
        self.shape = about["shape"] if kind == 7 else []
        more = 4 * self.shape.count(None) + (8 if self.encoding == 1 else 0)
        self.cell_bytes = odd.get("cell_bytes", padded(CELLS[kind][1] + more) if kind in CELLS else 8)
        self.spare = odd.get("spare", 0)
        self.extra = odd.get("extra", b"")

    def record(self):
        name, about = self.name.encode(), json.dumps(self.about).encode() if self.about else b""
        tail = pad(name + about + self.extra)
        numbers = [self.needs, self.flags, self.cell_bytes, len(name), len(about), self.spare]
        return struct.pack("<IHH6I", 32 + len(tail), self.kind, self.encoding, *numbers) + tail


def schema_bytes(fields, needs=0, spare=b""):
    return struct.pack("<II", len(fields), needs) + b"".join(f.record() for f in fields) + pad(spare)


def zstd(data):
    """A frame of one RLE block where all bytes are the same; None for others, which are stored as they are."""
    if len(data) < 32 or len(set(data)) > 1:
        return None
    block = (len(data) << 3 | 1 << 1 | 1).to_bytes(3, "little") + data[:1]
    return struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data)) + block


def cell_bytes(field, value, at):
    """The cell of a value whose data begins at `at`, and the data."""
    if field.kind not in CELLS or field.encoding > 1 or field.needs & ~1:
        return value.ljust(field.cell_bytes, b"\0"), b""
    if field.kind == 3:
        number = -(1 << 63) if value is ABSENT else value
        return struct.pack("<q", number).ljust(field.cell_bytes, b"\x5a"), b""
    if field.kind == 5:
        cell = struct.pack("<Q", FLOAT_ABSENT) if value is ABSENT else struct.pack("<d", value)
        return cell.ljust(field.cell_bytes, b"\x5a"), b""
    if value is ABSENT:
        return bytes(field.cell_bytes), b""
    data, rest = value if isinstance(value, tuple) else (value, ())
    raw = len(data)
    packed = zstd(data) if field.encoding == 1 else None
    data = packed or data
    cell = struct.pack("<II", at, len(data))
    if field.encoding == 1:
        cell += struct.pack("<II", raw, bool(packed))
    if field.kind == 2:
        cell += struct.pack(IMAGE_CELL, *rest)
    if field.kind == 7:
        sizes = [n for n, fixed in zip(rest, field.shape) if fixed is None]
        cell += struct.pack(f"<{len(sizes)}I", *sizes)
    return cell.ljust(field.cell_bytes, b"\x5a"), data  # what a cell has beyond its type is ignored


def chunk_bytes(fields, samples, packing, number, total, **odd):
    """`samples` are (key, {field: value}); a value of an unreadable field is its cell."""
    schema = odd.get("schema") or schema_bytes(fields)
    size_of = odd.get("head", 128)
    ends, keys = [], b""
    for key, _ in samples:
        keys += key
        ends.append(len(keys))
    ends = pad(struct.pack(f"<{len(ends)}I", *ends))
    row_n = sum(f.cell_bytes for f in fields)
    at = size_of + len(schema) + row_n * len(samples) + len(ends) + len(keys)
    rows, data = b"", b""
    for _, values in samples:
        for field in fields:
            cell, more = cell_bytes(field, values[field.name], at + len(data))
            rows += cell
            data += more
    body = schema + rows + ends + keys + data + odd.get("tail", b"")
    rest = struct.pack("<II16sII", odd.get("count", len(samples)), len(schema), packing, number, total)
    rest += struct.pack("<Q", xxhash.xxh3_64_intdigest(body))
    first = head(
        b"leat-chk", size_of, rest, size_of + len(body), odd.get("needs", 0), odd.get("flags", 0), odd.get("form", 1)
    )
    first = first.ljust(size_of - 4, odd.get("spare", b"\0"))
    return first + struct.pack("<I", crc32c(first)) + body


class Elsewhere:
    """A value whose bytes lie in an object: `data` of them from `offset` on. In an image's value it stands for the bytes.

    Its piece begins `between` earlier, with bytes that belong to no value.
    """

    def __init__(self, key, data, offset=0, whole=None, pin=b"", between=b""):
        self.key, self.data, self.offset, self.pin, self.between = key, data, offset, pin, between
        self.whole = len(data) if whole is None else whole


def recipe_bytes(fields, samples, source, packing, number, total, **odd):
    """A recipe, the size of its chunk and the data of its pieces. Values may be Elsewhere, and images have such bytes."""
    schema = odd.get("schema") or schema_bytes(fields)
    flat, places = [], []  # inline values are b"" where they lie elsewhere
    for key, values in samples:
        mine = {}
        for name, value in values.items():
            far = value[0] if isinstance(value, tuple) else value
            if isinstance(far, Elsewhere):
                places.append((len(flat), name, far))
                mine[name] = (b"", value[1]) if isinstance(value, tuple) else b""
            else:
                mine[name] = value
        flat.append((key, mine))
    lead = bytearray(pad(chunk_bytes(fields, flat, packing, number, total, schema=schema)))
    row_n = sum(f.cell_bytes for f in fields)
    data, entries, text = b"", b"", b""
    for row, name, far in places:
        cell_at = sum(f.cell_bytes for f in fields[: [f.name for f in fields].index(name)])
        piece = far.between + far.data
        at = len(lead) + len(data) + len(far.between)
        struct.pack_into("<II", lead, 128 + len(schema) + row * row_n + cell_at, at, len(far.data))
        if piece:
            text_at = text.find(far.key + far.pin)  # pieces of one object share its text
            if text_at < 0:
                text_at = len(text)
                text += far.key + far.pin
            numbers = (far.offset - len(far.between), far.whole, len(piece), text_at, len(far.key), len(far.pin))
            entries += struct.pack("<QQIIHH", *numbers).ljust(odd.get("piece_bytes", 32), odd.get("spare", b"\0"))
        data += piece
    struct.pack_into("<QQ", lead, 16, len(lead) + len(data), 1)  # size, and the bit of chunks that are made
    struct.pack_into("<QI", lead, 72, 0, len(lead))
    struct.pack_into("<I", lead, 124, crc32c(bytes(lead[:124])))
    size_of = odd.get("head", 72)
    body = bytes(lead[:128] + lead[128 + len(schema) :]) + entries + pad(text)
    rest = struct.pack(
        "<IIIIQI",
        source,
        len(entries) // odd.get("piece_bytes", 32),
        odd.get("piece_bytes", 32),
        len(lead),
        len(data),
        len(text),
    )
    first = head(b"leat-rcp", size_of, rest, size_of + len(body), odd.get("needs", 0), odd.get("flags", 0))
    return first.ljust(size_of, odd.get("spare", b"\0")) + body, len(lead) + len(data), data, rows_of(bytes(lead))


def recipes_section(recipes):
    at, starts = 8 * (len(recipes) + 1), []
    for recipe in (*recipes, b""):
        starts.append(at)
        at += len(recipe)
    return struct.pack(f"<{len(starts)}Q", *starts) + b"".join(recipes)


def sources_section(urls, needs=0, spare=b""):
    data = struct.pack("<II", len(urls), 0)
    for url in urls:
        tail = pad(url.encode() + spare)
        data += struct.pack("<IIII", 16 + len(tail), needs, len(url.encode()), 0) + tail
    return data


def keys_section(keys):
    ends, at = [], 0
    for key in keys:
        at += len(key)
        ends.append(at)
    index = sorted((xxhash.xxh3_64_intdigest(key), i) for i, key in enumerate(keys))
    data = struct.pack(f"<{len(ends)}Q", *ends)
    data += b"".join(struct.pack("<QQ", *entry) for entry in index)
    return data + b"".join(keys)


def content_id(schema, counts, names, selection=b""):
    first = struct.pack("<8sIIQ", b"leat-cid", 1, len(schema), len(counts))
    counted = struct.pack(f"<{len(counts)}I", *counts)
    return hashlib.sha256(first + schema + counted + b"".join(names) + selection).digest()


def selection_section(counts, packings, places, head_n=48, spare=b"\0"):
    """counts: samples of the chunks; packings: (id, chunks); places: of each chunk, the samples that count."""
    total = sum(map(len, places))
    data = struct.pack("<8sIIQQII", b"leat-sel", 1, head_n, total, sum(counts), len(counts), len(packings))
    data = data.ljust(head_n, spare)
    for packing, run in packings:
        data += struct.pack("<16sI", packing, run).ljust(24, spare)
    data += pad(struct.pack(f"<{len(counts)}I", *map(len, places)))
    for n, chosen in zip(counts, places):
        if 0 < len(chosen) < n:
            data += sum(1 << i for i in chosen).to_bytes((n + 63) // 64 * 8, "little")
    return data


def root_bytes(schema, chunks, sections, packings, **odd):
    """chunks: (count, bytes); sections: (kind, data, needs, flags); packings: (id, chunks)."""
    block, size_of = odd.get("block", 65536), odd.get("head", 192)
    spare = odd.get("spare", b"\0")
    counts = [count for count, _ in chunks]
    names = [hashlib.sha256(data).digest() for _, data in chunks]
    sizes = odd.get("sizes") or [len(data) for _, data in chunks]
    n = len(chunks)
    section_n, packing_n = odd.get("section_bytes", 64), odd.get("packing_bytes", 32)
    body = b""
    for kind, data, needs, flags in sections:
        entry = struct.pack("<IIQ32sI", kind, needs, len(data), hashlib.sha256(data).digest(), flags)
        body += entry.ljust(section_n, spare)
    for packing, run in packings:
        body += struct.pack("<16sI", packing, run).ljust(packing_n, spare)
    body += schema
    body += pad(struct.pack(f"<{n}I", *counts))
    body += pad(struct.pack(f"<{n}I", *sizes))
    body += struct.pack(f"<{n}Q", *(odd.get("sums") or (xxhash.xxh3_64_intdigest(data) for _, data in chunks)))
    body += b"".join(names)
    for _, data, _, _ in sections:
        for at in range(0, len(data), block):
            body += hashlib.sha256(data[at : at + block]).digest()[:16]
    body += odd.get("tail", b"")
    rest = struct.pack("<IIQQ", n, len(schema), sum(counts), sum(sizes))
    selection = b"".join(data for kind, data, _, _ in sections if kind == 5)
    name = hashlib.sha256(selection).digest() if selection else b""
    rest += odd.get("id") or content_id(schema, counts, names, name)
    rest += struct.pack("<5I", len(sections), section_n, len(packings), packing_n, block)
    if selection:
        rest += struct.pack("<IQ", 0, odd.get("selected") or struct.unpack_from("<Q", selection, 16)[0])
    first = head(
        b"leat-snp", size_of, rest, size_of + len(body), odd.get("needs", 0), odd.get("flags", 0), odd.get("form", 1)
    )
    return first.ljust(size_of, spare) + body


class Place:
    """A folder that datasets are written to."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def put(self, name, data):
        path = self.folder / "leat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def put_chunk(self, data):
        name = hashlib.sha256(data).hexdigest()
        self.put(f"chunks/{name[:2]}/{name}", data)

    def put_section(self, data):
        self.put(f"sections/{hashlib.sha256(data).hexdigest()}", data)

    def publish(self, root, names=(), current=True, **more):
        """Stores a root and the pointers to it. Returns its content id in hex."""
        root_id, id = hashlib.sha256(root).hexdigest(), root[64:96].hex()
        self.put(f"roots/{root_id}", root)
        pointer = json.dumps({"format": 1, "root": root_id, "id": id, **more}).encode() + b"\n"
        for name in [f"versions/{id}", *(f"names/{name}" for name in names), *(["current"] if current else [])]:
            self.put(name, pointer)
        return id

    def write(self, fields, chunks, packing=b"p" * 16, names=(), **odd):
        """A dataset of chunks (lists of samples). odd: schema, chunk={…}, root={…}, more_sections=[…], rows=False, keys=False."""
        schema = odd.get("schema") or schema_bytes(fields)
        made = []
        for i, samples in enumerate(chunks):
            data = chunk_bytes(fields, samples, packing, i, len(chunks), schema=schema, **odd.get("chunk", {}))
            self.put_chunk(data)
            made.append((len(samples), data))
        sections = list(odd.get("more_sections", []))
        if odd.get("rows", True):
            sections.append((1, b"".join(rows_of(data) for _, data in made), 0, 0))
        if odd.get("keys", True):
            sections.append((2, keys_section([key for samples in chunks for key, _ in samples]), 0, 0))
        for _, data, _, _ in sections:
            self.put_section(data)
        root = root_bytes(schema, made, sections, [(packing, len(made))], **odd.get("root", {}))
        return self.publish(root, names, **odd.get("pointer", {}))

    def index(self, fields, chunks, sources, packing=b"i" * 16, names=(), **odd):
        """An indexed dataset of chunks (source, samples), or (None, samples) for one that is stored. odd: summed, recipe={…}, root={…}."""
        schema = schema_bytes(fields)
        made, recipes, sizes, sums, rows = [], [], [], [], b""
        for i, (source, samples) in enumerate(chunks):
            if source is None:
                data = chunk_bytes(fields, samples, packing, i, len(chunks))
                self.put_chunk(data)
                made.append((len(samples), data))
                recipes.append(b"")
                sizes.append(len(data))
                sums.append(xxhash.xxh3_64_intdigest(data))
                rows += rows_of(data)
                continue
            recipe, size, data, some = recipe_bytes(
                fields, samples, source, packing, i, len(chunks), schema=schema, **odd.get("recipe", {})
            )
            made.append((len(samples), recipe))
            recipes.append(recipe)
            sizes.append(size)
            sums.append(xxhash.xxh3_64_intdigest(data) if odd.get("summed") else 0)
            rows += some
        sections = [
            (1, rows, 0, 0),
            (2, keys_section([key for _, samples in chunks for key, _ in samples]), 0, 0),
            (3, recipes_section(recipes), 1, 0),
            (4, sources_section(sources), 1, 0),
        ]
        for _, data, _, _ in sections:
            self.put_section(data)
        more = {"sizes": sizes, "sums": sums, **odd.get("root", {})}
        return self.publish(root_bytes(schema, made, sections, [(packing, len(made))], **more), names)


def rows_of(chunk):
    """The rows of a chunk that was made here."""
    (size_of,) = struct.unpack_from("<I", chunk, 12)
    n, schema_n = struct.unpack_from("<II", chunk, 40)
    (fields,) = struct.unpack_from("<I", chunk, size_of)
    row_n, at = 0, size_of + 8
    for _ in range(fields):
        record, _, _, _, _, cell = struct.unpack_from("<IHHIII", chunk, at)
        row_n, at = row_n + cell, at + record
    at = size_of + schema_n
    return chunk[at : at + n * row_n]
