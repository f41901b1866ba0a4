"""Order version 1 written a second time, from docs/order.md and docs/random.md alone: slow, short, no shared code.

`python tests/py/order_reference.py` prints the golden values kept in tests/golden/order-1.txt.
"""

import hashlib
import struct

M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF


def philox(key, stream, index):
    c = [index & M32, index >> 32, stream & M32, stream >> 32]
    k0, k1 = key & M32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & M32, (p0 >> 32) ^ c[3] ^ k1, p0 & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


def key(purpose, a, b, data):
    outer = hashlib.sha256(purpose.encode()).digest() + struct.pack("<QQQ", a, b, len(data)) + bytes(8)
    return int.from_bytes(hashlib.sha256(outer + hashlib.sha256(data).digest()).digest()[:8], "little")


class Rng:
    def __init__(self, k, stream):
        self.k, self.stream, self.index, self.block = k, stream, 0, []

    def u32(self):
        if not self.block:
            self.block = philox(self.k, self.stream, self.index)
            self.index += 1
        return self.block.pop(0)

    def below(self, n):
        reject = (-n & M64) % n
        while True:
            low = self.u32()
            product = (low | self.u32() << 32) * n
            if product & M64 >= reject:
                return product >> 64


def shuffle(k, stream, v):
    r = Rng(k, stream)
    for i in range(len(v), 1, -1):
        j = r.below(i)
        v[i - 1], v[j] = v[j], v[i - 1]


def arrange(k, stream, slots, node=1, first=0, size=1024):
    """The order in which a round visits its slots (given ascending)."""
    n = len(slots)
    if n < 2:
        return slots
    left = arrange(k, stream, [s for s in slots if s < first + size // 2], 2 * node, first, size // 2)
    right = arrange(k, stream, [s for s in slots if s >= first + size // 2], 2 * node + 1, first + size // 2, size // 2)
    start = philox(k, stream, node // 4)[node % 4] * n >> 32
    rights = [(i * len(right) + start) // n for i in range(n + 1)]
    left, right = iter(left), iter(right)
    return [next(right) if rights[i + 1] > rights[i] else next(left) for i in range(n)]


def slot_of(chunk, chunks):
    return chunk if chunks < 1024 else int(format(chunk % 1024, "010b")[::-1], 2)


def chunk_list(counts, slots_key, rounds_key):
    n = min(1024, len(counts))
    slots = [[] for _ in range(n)]
    for c, count in enumerate(counts):
        if count:
            slots[slot_of(c, len(counts))].append(c)
    for s, v in enumerate(slots):
        shuffle(slots_key, s, v)
    rounds = max(map(len, slots), default=0)
    pauses = min(4, rounds)
    visits = [{} for _ in range(rounds)]
    for i, s in enumerate(arrange(rounds_key, M64, list(range(n)))):
        for j, c in enumerate(slots[s]):
            offset = (i * pauses // n) * rounds // pauses
            visits[(j * rounds + offset) // len(slots[s])][s] = c
    return [visit[s] for r, visit in enumerate(visits) for s in arrange(rounds_key, r, sorted(visit))]


def order(dataset, counts, seed, epoch, window, view="samples"):
    """The (chunk, index) pairs of an epoch."""
    k = {p: key("order 1 " + p, seed, epoch, dataset + view.encode()) for p in ("slots", "rounds", "strata", "jitter")}
    units = []
    for place, c in enumerate(chunk_list(counts, k["slots"], k["rounds"])):
        index = list(range(counts[c]))
        shuffle(k["strata"], c, index)
        stride = (window << 32) // counts[c]
        for j, i in enumerate(index):
            jitter = philox(k["jitter"], c, j // 4)[j % 4]
            units.append(((place << 32) + j * stride + (stride * jitter >> 32), c, i))
    return [(c, i) for _, c, i in sorted(units)]


def numbers(counts, pairs):
    first = [0]
    for n in counts:
        first.append(first[-1] + n)
    return [first[c] + i for c, i in pairs]


# chunks, count of chunk c = low + (c * 7919) % span, seed, epoch, window
GOLDEN = [
    (1, 10, 1, 0, 0, 1),
    (1, 10, 1, 0, 0, 4),
    (2, 1, 3, 1, 0, 2),
    (7, 20, 5, 42, 3, 3),
    (100, 0, 4, 1, 1, 16),
    (1000, 5, 9, 7, 2, 64),
    (1023, 3, 1, 7, 2, 128),
    (1024, 3, 1, 7, 2, 128),
    (1025, 3, 2, 7, 2, 128),
    (1500, 0, 3, 2**63 - 1, 2**40, 100),
    (5000, 4, 6, 123456789, 1, 333),
    (3, 5000, 2000, 5, 5, 65536),
]


def golden_line(chunks, low, span, seed, epoch, window):
    counts = [low + c * 7919 % span for c in range(chunks)]
    units = numbers(counts, order(bytes(range(32)), counts, seed, epoch, window))
    digest = hashlib.sha256(struct.pack(f"<{len(units)}Q", *units)).hexdigest()
    head = " ".join(map(str, units[:4]))
    return f"{chunks} {low} {span} {seed} {epoch} {window} {len(units)} {digest} {head}"


if __name__ == "__main__":
    print("# chunks low span seed epoch window units sha256 first... (docs/order.md, Golden values)")
    for case in GOLDEN:
        print(golden_line(*case))
