"""Messages between ranks and the agent (docs/ring.md), for tests that speak to an agent themselves."""

import struct

HELLO, WELCOME, OPEN, OPENED, ERROR, FAILED, MEMORY, STATS, DESCRIBE, STOP, KEYS, AGREE = range(1, 13)
(
    PROTOCOL, VERSION, PID, RAM, THREADS, LINGER, FEATURES, STATUS, TEXT, SLOT, URL, ID, STATE, UNITS, BATCHES,
    AGREEMENT, STRICT, AGREED, NODES, OUTPUT, NAME, KIND, FIELD, PIPELINE, VIEW,
) = range(1, 26)  # fmt: skip
ACCESS, PLACE, LACKS = 45, 46, 47
CURRENT = 2  # the protocol
SETTING = 100
SETTINGS = {
    name: SETTING + number
    for number, name in enumerate(
        [
            "version",
            "batch_size",
            "global_batch_size",
            "rank",
            "world_size",
            "local_world_size",
            "job",
            "last",
            "on_error",
            "shuffle",
            "seed_given",
            "seed",
            "window",
            "epoch",
            "ram",
            "threads",
            "slots",
            "timeout",
            "linger",
            "scope",
            "agent",
            "endpoint_url",
            "region",
            "profile",
            "anonymous",
            "cache_dir",
            "cache",
        ],
        1,
    )
}


class Bytes(bytes):
    """What only the reader at the other end knows how to read."""


def field(tag, value, needed=True):
    """Numbers, texts, lists of numbers, Bytes and groups (a dict, or a list of pairs) as a message holds them."""
    if isinstance(value, (dict, tuple)):
        kind, data = 4, fields(value)
    elif isinstance(value, list):
        kind, data = 3, struct.pack(f"<{len(value)}I", *value)
    elif isinstance(value, str):
        kind, data = 2, value.encode() + b"\0"
    elif isinstance(value, bytes):
        kind, data = 5 if isinstance(value, Bytes) else 9, value  # 9: a type to come
    else:
        kind, data = 1, struct.pack("<Q", value % 2**64)
    return struct.pack("<HBBI", tag, kind, needed, len(data)) + data


def fields(pairs):
    return b"".join(field(tag, value) for tag, value in (pairs.items() if isinstance(pairs, dict) else pairs))


def message(kind, pairs=()):
    return struct.pack("<I", kind) + fields(pairs)


def parse(data):
    """(kind, {tag: value}); numbers and texts only."""
    kind, found, at = struct.unpack_from("<I", data)[0], {}, 4
    while at < len(data):
        tag, type_, _, n = struct.unpack_from("<HBBI", data, at)
        value = data[at + 8 : at + 8 + n]
        found[tag] = struct.unpack("<Q", value)[0] if type_ == 1 else value[:-1].decode() if type_ == 2 else value
        at += 8 + n
    return kind, found
