"""A writer of dataset format 1 in plain Python, from docs/format.md: for datasets that `leat pack` does not make.

It makes what a later release might (longer heads, spare bytes in use, sections of other kinds) and what nobody
should (a root that says something else than its chunks).
"""

import hashlib
import json
import struct
from pathlib import Path

import xxhash
from format_reader import ABSENT, CELLS, crc32c, padded

IMAGE_CELL = "<IIIII4B"


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
        self.cell_bytes = odd.get("cell_bytes", CELLS[kind][1] if kind in CELLS else 8)
        self.spare = odd.get("spare", 0)
        self.extra = odd.get("extra", b"")

    def record(self):
        name, about = self.name.encode(), json.dumps(self.about).encode() if self.about else b""
        tail = pad(name + about + self.extra)
        numbers = [self.needs, self.flags, self.cell_bytes, len(name), len(about), self.spare]
        return struct.pack("<IHH6I", 32 + len(tail), self.kind, self.encoding, *numbers) + tail


def schema_bytes(fields, needs=0, spare=b""):
    return struct.pack("<II", len(fields), needs) + b"".join(f.record() for f in fields) + pad(spare)


def cell_bytes(field, value, at):
    """The cell of a value whose data begins at `at`, and the data."""
    if field.kind not in CELLS or field.encoding or field.needs & ~1:
        return value.ljust(field.cell_bytes, b"\0"), b""
    if field.kind == 3:
        number = -(1 << 63) if value is ABSENT else value
        return struct.pack("<q", number).ljust(field.cell_bytes, b"\x5a"), b""
    if value is ABSENT:
        return bytes(field.cell_bytes), b""
    if field.kind == 2:
        data, numbers = value
        cell = struct.pack(IMAGE_CELL, at, len(data), *numbers)
    else:
        data, cell = value, struct.pack("<II", at, len(value))
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
    body = schema + rows + ends + keys + data
    rest = struct.pack("<II16sII", odd.get("count", len(samples)), len(schema), packing, number, total)
    rest += struct.pack("<Q", xxhash.xxh3_64_intdigest(body))
    first = head(
        b"leat-chk", size_of, rest, size_of + len(body), odd.get("needs", 0), odd.get("flags", 0), odd.get("form", 1)
    )
    first = first.ljust(size_of - 4, odd.get("spare", b"\0"))
    return first + struct.pack("<I", crc32c(first)) + body


def keys_section(keys):
    ends, at = [], 0
    for key in keys:
        at += len(key)
        ends.append(at)
    index = sorted((xxhash.xxh3_64_intdigest(key), i) for i, key in enumerate(keys))
    data = struct.pack(f"<{len(ends)}Q", *ends)
    data += b"".join(struct.pack("<QQ", *entry) for entry in index)
    return data + b"".join(keys)


def content_id(schema, counts, names):
    first = struct.pack("<8sIIQ", b"leat-cid", 1, len(schema), len(counts))
    return hashlib.sha256(first + schema + struct.pack(f"<{len(counts)}I", *counts) + b"".join(names)).digest()


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
    body += struct.pack(f"<{n}Q", *(xxhash.xxh3_64_intdigest(data) for _, data in chunks))
    body += b"".join(names)
    for _, data, _, _ in sections:
        for at in range(0, len(data), block):
            body += hashlib.sha256(data[at : at + block]).digest()[:16]
    body += odd.get("tail", b"")
    rest = struct.pack("<IIQQ", n, len(schema), sum(counts), sum(sizes))
    rest += odd.get("id") or content_id(schema, counts, names)
    rest += struct.pack("<5I", len(sections), section_n, len(packings), packing_n, block)
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
