"""Order 1 and assignment 1 written a second time, from docs/order.md and docs/random.md alone: slow, short, no shared code.

`python tests/py/order_reference.py order` prints the golden values kept in tests/golden/order-1.txt, `assignment` those in
assignment-1.txt.
"""

import hashlib
import struct
import sys
from itertools import groupby

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


def ranks_of(nodes_of_rank):
    return [nodes_of_rank.count(k) for k in range(max(nodes_of_rank) + 1)]


def place(slots, node_of_rank):
    """The table from nothing: the node of each slot."""
    line = sorted(node_of_rank)
    return [line[s * len(line) // slots] for s in range(slots)]


def divisible(x):
    return x & -x if x else 1 << 32


def place_again(before, was, node_of_rank):
    """The table after a change: was[k] is the old number of node k, None when it joined."""
    ranks, slots, world = ranks_of(node_of_rank), len(before), len(node_of_rank)
    table = [was.index(k) if k in was else None for k in before]
    share = [slots * r // world for r in ranks]
    not_whole = [k for k, r in enumerate(ranks) if slots * r % world]
    not_whole.sort(key=lambda k: (table.count(k) <= share[k], -(slots * ranks[k] % world), k))
    for k in not_whole[: slots - sum(share)]:
        share[k] += 1
    runs = [[s for s, _ in group] for _, group in groupby(enumerate(before), key=lambda pair: pair[1])]
    for run in sorted(runs, key=lambda run: (len(run), run[0])):
        if divisible(run[0]) >= divisible(run[-1] + 1):
            run.reverse()
        for s in run:
            if table[s] is not None and table.count(table[s]) > share[table[s]]:
                table[s] = None
    lacking = [k for k in range(len(ranks)) for _ in range(share[k] - table.count(k))]
    return [lacking.pop(0) if node is None else node for node in table]


def assign(slots, table, node_of_rank, costs=None):
    """The rank of each unit of a batch: `slots` is where they lie, in order of position."""
    n, world = len(slots), len(node_of_rank)
    quota = [n // world + (r < n % world) for r in range(world)]
    node = [None] * n
    over, holes = [], []
    for k in range(max(node_of_rank) + 1):
        takes = sum(q for q, at in zip(quota, node_of_rank) if at == k)
        own = sorted((i for i in range(n) if table[slots[i]] == k), key=lambda i: (slots[i], i))
        more = max(0, len(own) - takes)
        low = min(more, max(0, len(holes) - len(over)))
        kept = own[low : len(own) - (more - low)]
        for i in kept:
            node[i] = k
        over += [i for i in own if i not in kept]
        holes += [k] * (takes - len(kept))
    for i, k in zip(over, holes):
        node[i] = k
    rank_of, spent = [None] * n, [0] * world
    for i in sorted(range(n), key=lambda i: (-(costs[i] if costs else 1), i)):
        here = [r for r in range(world) if node_of_rank[r] == node[i] and quota[r]]
        rank_of[i] = min(here, key=lambda r: (spent[r], -quota[r], r))
        quota[rank_of[i]] -= 1
        spent[rank_of[i]] += costs[i] if costs else 1
    return rank_of


# chunks, node map, batch, costs, changes of the table
ASSIGNMENTS = [
    (1, "1", 5, 0, "-"),
    (7, "1,1", 10, 1, "-"),
    (40, "4,2", 36, 0, "-"),
    (40, "4,2", 37, 1, "-"),
    (1000, "8,8,8", 240, 0, "-"),
    (1024, "4,2", 600, 0, "-"),
    (1024, "1,5,3", 599, 1, "-"),
    (5000, "2/3", 600, 0, "-"),
    (5000, "4/5", 1000, 1, "-"),
    (5000, "8,8,8,8,8,8,8", 3, 0, "-"),
    (5000, "8,8,8,8,8,8,8", 1120, 0, "-"),
    (5000, "2,2,2,2", 400, 0, "-1"),
    (5000, "2,2,2,2", 500, 1, "+2"),
    (5000, "4,4,4", 600, 0, "-0 +4 +4 -1 +2"),
    (300, "1,1,1,1,1", 250, 0, "-4 -3 +2 -0 +1"),
    (3, "1,1,1,1,1", 50, 0, "+1 -0 -0"),
]


def read_map(text):
    if "/" in text:
        each, nodes = map(int, text.split("/"))
        return [r % nodes for r in range(each * nodes)]
    return [k for k, ranks in enumerate(text.split(",")) for _ in range(int(ranks))]


def digest(numbers):
    return hashlib.sha256(struct.pack(f"<{len(numbers)}I", *numbers)).hexdigest()


def assignment_line(chunks, node_map, batch, with_costs, steps):
    node_of_rank = read_map(node_map)
    table = place(min(1024, chunks), node_of_rank)
    for step in steps.split(" ") if steps != "-" else []:
        ranks = ranks_of(node_of_rank)
        was = list(range(len(ranks)))
        if step[0] == "-":
            del ranks[int(step[1:])], was[int(step[1:])]
        else:
            ranks.append(int(step[1:]))
            was.append(None)
        node_of_rank = [k for k, r in enumerate(ranks) for _ in range(r)]
        table = place_again(table, was, node_of_rank)
    slots = [slot_of((i * 7919 + i // 7 * 31) % chunks, chunks) for i in range(batch)]
    costs = [i * 2654435761 % 2**32 % 1000 for i in range(batch)] if with_costs else None
    ranks = assign(slots, table, node_of_rank, costs)
    steps = steps.replace(" ", ";")
    return f"{chunks} {node_map} {batch} {with_costs} {steps} {digest(table)} {digest(ranks)} {' '.join(map(str, ranks[:4]))}"


if __name__ == "__main__":
    if sys.argv[1:] == ["assignment"]:
        print("# chunks map batch costs steps sha256-of-table sha256-of-ranks first... (docs/order.md, Golden values)")
        for case in ASSIGNMENTS:
            print(assignment_line(*case))
    else:
        print("# chunks low span seed epoch window units sha256 first... (docs/order.md, Golden values)")
        for case in GOLDEN:
            print(golden_line(*case))
