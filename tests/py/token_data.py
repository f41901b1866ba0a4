"""Token datasets of every shape, written without Leat, and what blocks of them must be: plain loops over lists."""

import numpy as np
from format_writer import Field, Place, chunk_bytes, keys_section, root_bytes, rows_of, schema_bytes


def documents(seed, chunks, most=300, vocabulary=5000, dtype="uint16", least=0):
    """For each chunk a list of documents, some of them empty."""
    draw = np.random.default_rng(seed)
    made = []
    for count in chunks:
        sizes = draw.integers(least, most, size=count)
        made.append([draw.integers(0, vocabulary, size=n).astype(dtype) for n in sizes])
    return made


class Tokens:
    """A dataset in a folder. `shape`:

    "samples": every document a sample, values of another field between them;
    "stretch": documents are samples that follow each other to the end of the chunk, and `overlap` tokens of the next
    chunk lie after them, where there is one;
    "file": the same without documents, one sample for each chunk, the overlap included.
    """

    def __init__(self, folder, chunks, shape="samples", dtype="uint16", overlap=1, text=lambda docs, k: k % 5, more=()):
        self.url = str(folder)
        self.shape, self.chunks = shape, chunks
        self.overlap = 0 if shape == "samples" else overlap
        about = {"dtype": dtype}
        flat = [np.concatenate([*docs, np.zeros(0, dtype)]) for docs in chunks]
        self.own = flat
        if shape != "samples":
            about |= {"stretch": max(map(len, flat)), "overlap": overlap}
            assert all(len(f) == about["stretch"] for f in flat[:-1])  # only whole stretches go on
        self.after = [
            flat[i + 1][:overlap] if shape != "samples" and i + 1 < len(flat) else flat[i][:0] for i in range(len(flat))
        ]
        fields = [Field("tokens", 8, about)]
        if shape == "samples":
            fields.append(Field("text", 1))
        fields += more
        place = Place(folder)
        schema = schema_bytes(fields)
        made, keys = [], []
        for i, cut in enumerate(chunks):
            file = shape == "file"
            docs = [np.concatenate([flat[i], self.after[i]])] if file else cut
            tail = b"" if file else self.after[i].tobytes()
            samples = [
                (
                    f"{i}/{k}".encode(),
                    {"tokens": d.tobytes(), "text": b"x" * text(docs, k), **{f.name: b"" for f in more}},
                )
                for k, d in enumerate(docs)
            ]
            data = chunk_bytes(fields, samples, b"p" * 16, i, len(chunks), schema=schema, tail=tail)
            place.put_chunk(data)
            made.append((len(samples), data))
            keys += [key for key, _ in samples]
        sections = [(1, b"".join(rows_of(data) for _, data in made), 0, 0), (2, keys_section(keys), 0, 0)]
        for _, data, _, _ in sections:
            place.put_section(data)
        place.publish(root_bytes(schema, made, sections, [(b"p" * 16, len(made))]))

    def cut(self, length, shift):
        """[(tokens, (chunk, sample) where it begins, borders in the first `length` tokens)] of all chunks."""
        blocks = []
        for i, docs in enumerate(self.chunks):
            line = np.concatenate([self.own[i], self.after[i][:shift]])
            owner = np.repeat(np.arange(len(docs)), [len(d) for d in docs])
            if self.shape == "file":
                owner[:] = 0
            for at in range(0, max(0, (len(line) - shift) // length) * length, length):
                inside = owner[at : at + length]
                borders = [k for k in range(1, len(inside)) if inside[k] != inside[k - 1]]
                blocks.append((line[at : at + length + shift], (i, owner[at]), borders))
        return blocks

    def fit(self, length, shift):
        """[(tokens, (chunk, sample) where it begins, borders, real tokens)]: docs/tokens.md, word by word."""
        room = length + shift
        blocks = []
        for i, docs in enumerate(self.chunks):
            parts = [(k, p) for k, d in enumerate(docs) for p in range(-(-len(d) // room))]
            size = {(k, p): min(room, len(docs[k]) - p * room) for k, p in parts}
            home, spare, stacks = {}, [], {}
            for part in sorted(parts, key=lambda part: -size[part]):  # stable
                free = [s for s in stacks if stacks[s] and s >= size[part]]
                if free:
                    block = stacks[min(free)].pop()
                else:
                    block = len(spare)
                    spare.append(room)
                home[part] = block
                spare[block] -= size[part]
                if spare[block]:
                    stacks.setdefault(spare[block], []).append(block)
            inside = {}
            for part in parts:
                inside.setdefault(home[part], []).append(part)
            for mine in inside.values():  # in the order of their first parts
                pieces = [docs[k][p * room : p * room + size[k, p]] for k, p in mine]
                ends = np.cumsum([len(p) for p in pieces])
                borders = [int(e) for e in ends if e < length]
                blocks.append((np.concatenate(pieces), (i, mine[0][0]), borders, int(ends[-1])))
        return blocks


def marked(tokens, length, eos=None, bos=None):
    """Borders by tokens that end or begin documents."""
    found = {k + 1 for k in range(length) if eos is not None and tokens[k] == eos}
    found |= {k for k in range(length) if bos is not None and tokens[k] == bos}
    return sorted(found - {0, length})


def positions(borders, length):
    starts = [0, *borders, length]
    return np.concatenate([np.arange(b - a) for a, b in zip(starts, starts[1:])])


def numbers(borders, length):
    return np.searchsorted(np.array(borders, dtype=int), np.arange(length), side="right")


def int32s(values):
    """A list, from memory or from an array."""
    return np.frombuffer(np.ascontiguousarray(values).tobytes(), dtype="int32").tolist()
