"""Blocks of tokens: every token where a plain loop says it must be, whatever shape the dataset has."""

import json
import struct

import numpy as np
import pytest
from format_writer import Field, Place
from loading import run_here, smallest_budget
from token_data import Tokens, documents, int32s, marked, numbers, positions

EOS = 7


def equal_chunks(seed, count, tokens, last, **more):
    """Documents whose chunks all have the same number of tokens but the last: what stretches are."""
    made = []
    draw = np.random.default_rng(seed)
    for i in range(count):
        n = tokens if i + 1 < count else last
        flat = np.concatenate(documents(seed + i, [1], most=n + 1, least=n, **more)[0])
        made.append(np.split(flat, np.sort(draw.integers(0, n + 1, size=n // 60))))
    return made


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """(shape, dtype) -> a dataset, made once."""
    kept = {}

    def get(shape, dtype="uint16"):
        if (shape, dtype) not in kept:
            top = {"uint16": 1 << 16, "uint32": 1 << 32, "int32": 1 << 31}[dtype]
            if shape == "samples":
                chunks = documents(3, [50, 1, 80, 2, 60], dtype=dtype, vocabulary=top)
            else:
                chunks = equal_chunks(5, 4, 4096, 1234, dtype=dtype, vocabulary=top)
            kept[shape, dtype] = Tokens(tmp_path_factory.mktemp("tokens"), chunks, shape, dtype)
        return kept[shape, dtype]

    return get


def read(lt, url, view, fields, **more):
    """Everything an epoch gives, as lists of copies, in the order of the blocks' numbers."""
    options = {"batch_size": 7, "last": "short", "shuffle": False, "as_numpy": True, "as_dict": True, **more}
    out = {name: [] for name in fields}
    with lt.Loader(url, view=view, fields=fields, **options) as loader:
        for batch in loader:
            for name, values in batch.items():
                out[name] += [v if isinstance(v, str) else np.array(v) for v in values]
    return out


# Every length in one type, and every type in a length that divides nothing.
LENGTHS = [("uint16", *cut) for cut in [(64, 1), (50, 0), (13, 5)]]
LONG = [pytest.param("uint16", *cut, marks=pytest.mark.long) for cut in [(37, 1), (1, 0), (2048, 1)]]


@pytest.mark.parametrize(("dtype", "length", "shift"), [*LENGTHS, *LONG, ("uint32", 37, 1), ("int32", 37, 1)])
@pytest.mark.parametrize("shape", ["samples", "stretch", "file"])
def test_blocks_are_the_tokens_in_their_order(lt, datasets, shape, dtype, length, shift):
    data = datasets(shape, dtype)
    want = data.cut(length, shift)
    fields = {"x": lt.tokens("tokens"), "s": lt.tokens("tokens", dtype=dtype), "i": lt.index(), "key": lt.key()}
    got = read(lt, data.url, lt.blocks(length, shift), fields | {"n": lt.length("tokens")})
    assert len(got["x"]) == len(want)
    assert got["i"] == list(range(len(want)))
    for (tokens, (chunk, sample), _), x, s, key, n in zip(want, got["x"], got["s"], got["key"], got["n"]):
        assert x.dtype == np.int64 and s.dtype == np.dtype(dtype)
        assert x.tolist() == s.tolist() == tokens.tolist()
        assert key == f"{chunk}/{sample}"
        assert n == length + shift


@pytest.mark.parametrize("shape", ["samples", "stretch", "file"])
def test_all_tokens_come_once_in_shuffled_epochs(lt, datasets, shape):
    data = datasets(shape)
    want = sorted(tuple(tokens[:32]) for tokens, _, _ in data.cut(32, 1))
    orders = []
    for epoch in (0, 1):
        got = read(lt, data.url, lt.blocks(32), {"x": lt.tokens("tokens")}, shuffle=True, seed=4, epoch=epoch)
        orders.append([tuple(x[:32].tolist()) for x in got["x"]])
        assert sorted(orders[-1]) == want
    assert orders[0] != orders[1]
    if (
        shape != "samples"
    ):  # the overlap makes blocks go on where chunks end: nothing is lost but at the end of the file
        first = np.concatenate([t[:32] for t, _, _ in data.cut(32, 1)])
        assert len(first) >= sum(map(len, data.own)) - 32


@pytest.mark.parametrize(("dtype", "top"), [("int32", (1 << 31) - 1), ("int64", (1 << 32) - 1)])
def test_tokens_become_wider_without_change(lt, tmp_path, dtype, top):
    data = Tokens(tmp_path, [[np.array([0, 1, top, 5, 65535, 65536], dtype="uint32")]], dtype="uint32")
    got = read(lt, data.url, "blocks=6 shift=0", {"x": lt.tokens("tokens", dtype=dtype)})
    assert got["x"][0].dtype == np.dtype(dtype) and got["x"][0].tolist() == [0, 1, top, 5, 65535, 65536]


def test_a_token_too_large_for_int32_is_an_error(lt, tmp_path):
    data = Tokens(tmp_path, [[np.array([0, 1, 1 << 31], dtype="uint32")]], dtype="uint32")
    with pytest.raises(lt.Error, match='block 0: a token is too large for int32: ask for dtype="int64"'):
        read(lt, data.url, "blocks=3 shift=0", {"x": lt.tokens("tokens", dtype="int32")})


# Documents


@pytest.mark.parametrize(("length", "shift"), [(64, 1), (100, 0), (333, 2)])
@pytest.mark.parametrize("shape", ["samples", "stretch"])
def test_documents_of_the_dataset_are_told_in_three_ways(lt, datasets, shape, length, shift):
    data = datasets(shape)
    fields = {"cu": lt.cu_seqlens("tokens"), "p": lt.positions("tokens"), "d": lt.documents("tokens")}
    fields |= {"most": lt.cu_seqlens("tokens", most=60), "p32": lt.positions("tokens", dtype="int32")}
    got = read(lt, data.url, lt.blocks(length, shift), fields)
    want = data.cut(length, shift)
    assert len(got["cu"]) == len(want)
    assert sum(len(borders) for _, _, borders in want) > 10  # there is something to see
    for i, (_, _, borders) in enumerate(want):
        cu = [0, *borders, length]
        assert int32s(got["cu"][i]) == cu
        assert got["most"][i].tolist() == cu + [length] * (61 - len(cu))
        assert got["p"][i].tolist() == got["p32"][i].tolist() == positions(borders, length).tolist()
        assert got["d"][i].tolist() == numbers(borders, length).tolist()
    assert got["p"][0].dtype == np.int64 and got["p32"][0].dtype == got["d"][0].dtype == np.int32


@pytest.mark.parametrize("dtype", ["uint16", pytest.param("uint32", marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", ["samples", "file"])
@pytest.mark.parametrize("marks", [{"eos": EOS}, {"bos": EOS}, {"eos": EOS, "bos": 9}])
def test_documents_by_tokens_that_end_or_begin_them(lt, tmp_path, shape, dtype, marks):
    chunks = equal_chunks(2, 3, 3000, 1000, vocabulary=40, dtype=dtype)
    data = Tokens(tmp_path, chunks, shape, dtype)
    length = 130
    got = read(
        lt, data.url, lt.blocks(length), {"cu": lt.cu_seqlens("tokens", **marks), "d": lt.documents("tokens", **marks)}
    )
    want = data.cut(length, 1)
    assert len(want) == len(got["cu"])
    for i, (tokens, _, _) in enumerate(want):
        borders = marked(tokens, length, **marks)
        assert int32s(got["cu"][i]) == [0, *borders, length]
        assert got["d"][i].tolist() == numbers(borders, length).tolist()


def test_more_documents_than_there_is_room_for_are_an_error(lt, tmp_path):
    data = Tokens(tmp_path, [[np.arange(4, dtype="uint16")] * 5])
    with pytest.raises(lt.Error, match="block 0: a block has 5 documents, but cu_seqlens has room for most=4"):
        read(lt, data.url, "blocks=20 shift=0", {"cu": lt.cu_seqlens("tokens", most=4)})


# Packing


@pytest.mark.parametrize(
    ("length", "shift"),
    [(64, 1), (200, 0), *(pytest.param(*case, marks=pytest.mark.long) for case in ((299, 1), (1000, 3), (1, 0)))],
)
@pytest.mark.parametrize("shape", ["samples", "stretch"])
def test_documents_are_packed_by_best_fit(lt, datasets, shape, length, shift):
    data = datasets(shape)
    want = data.fit(length, shift)
    fields = {"x": lt.tokens("tokens").pad(length + shift, value=EOS), "n": lt.length("tokens"), "key": lt.key()}
    fields |= {"cu": lt.cu_seqlens("tokens"), "p": lt.positions("tokens"), "zero": lt.tokens("tokens")}
    got = read(lt, data.url, lt.blocks(length, shift, documents="fit"), fields)
    assert len(got["x"]) == len(want)
    for i, (tokens, (chunk, sample), borders, real) in enumerate(want):
        assert got["n"][i] == real
        assert got["x"][i].tolist() == tokens.tolist() + [EOS] * (length + shift - real)
        assert got["zero"][i].tolist() == tokens.tolist() + [0] * (length + shift - real)
        assert got["key"][i] == f"{chunk}/{sample}"
        assert int32s(got["cu"][i]) == [0, *borders, length]
        assert got["p"][i].tolist() == positions(borders, length).tolist()


@pytest.mark.parametrize("shape", ["samples", "stretch"])
def test_packing_keeps_every_token_of_every_document_once(lt, datasets, shape):
    """Without the reference: parts by cu_seqlens, put together again."""
    data = datasets(shape)
    room = 128
    fields = {"x": lt.tokens("tokens"), "n": lt.length("tokens"), "cu": lt.cu_seqlens("tokens")}
    got = read(lt, data.url, lt.blocks(room, 0, "fit"), fields, shuffle=True)
    parts = []
    for x, n, cu in zip(got["x"], got["n"], got["cu"]):
        borders = [b for b in int32s(cu) if b < n] + [int(n)]
        parts += [tuple(x[a:b].tolist()) for a, b in zip(borders, borders[1:])]
    want = [tuple(d[i : i + room].tolist()) for docs in data.chunks for d in docs for i in range(0, len(d), room)]
    assert sorted(parts) == sorted(want)


def test_packing_wastes_little(lt, tmp_path):
    data = Tokens(tmp_path, documents(1, [1000], most=900, least=1))
    tokens = sum(len(d) for d in data.chunks[0])
    with lt.Loader(
        data.url, view=lt.blocks(2047, documents="fit"), batch_size=1, fields={"x": lt.tokens("tokens")}
    ) as loader:
        assert loader.samples <= -(-tokens // 2048) + 2


# The order


@pytest.mark.parametrize("view", ["blocks=32 shift=1", "blocks=96 shift=0 documents=fit"])
def test_a_resume_at_another_world_size_reads_every_block_once(lt, datasets, view):
    data = datasets("samples")
    loader = {"url": data.url, "view": view, "global_batch_size": 12, "last": "short", "seed": 3}
    fields = ["tokens", "index", "valid"]

    def blocks(ranks):
        return [
            (i, tuple(t))
            for lines in ranks
            for line in lines
            if "index" in line
            for i, t in zip(line["index"], line["tokens"])
        ]

    whole = blocks(run_here(lt, 1, loader, fields=fields))
    first = run_here(lt, 3, loader, fields=fields, batches=4)
    states = [lines[-1]["state"] for lines in first]
    assert states[0] == states[1] == states[2]
    assert states[0]["streams"][0]["view"] == view
    rest = run_here(lt, 2, loader, fields=fields, state=states[0])
    again = blocks(first) + blocks(rest)
    assert len({i for i, _ in whole}) == len(whole)
    assert sorted(again) == sorted(whole)


def test_a_state_of_another_view_is_refused(lt, datasets):
    url, fields = datasets("samples").url, {"x": lt.tokens("tokens")}
    with lt.Loader(url, view="blocks=32", batch_size=4, fields=fields) as loader:
        next(iter(loader))
        state = loader.state_dict()
    loader = lt.Loader(url, view="blocks=64", batch_size=4, fields=fields)
    with loader, pytest.raises(lt.Error, match=r"blocks=32 shift=1.*blocks=64 shift=1"):
        loader.load_state_dict(state)
        next(iter(loader))


def test_the_same_view_has_one_name(lt, datasets):
    for text in (
        "blocks=32",
        "shift=1  blocks=32 ",
        "documents=cut blocks=32 field=tokens",
        lt.blocks(32, field="tokens"),
    ):
        with lt.Loader(datasets("file").url, view=text, batch_size=4, fields={"x": lt.tokens("tokens")}) as loader:
            assert loader.state_dict()["streams"][0]["view"] == "blocks=32 shift=1"
    with lt.Loader(datasets("file").url, view="samples", batch_size=1, fields={"n": lt.length("tokens")}) as loader:
        assert loader.state_dict()["streams"][0]["view"] == "samples"
        assert loader.samples == 4


def test_batches_in_groups_have_the_same_documents(lt, runtime, tmp_path):
    """Chunks so uneven that a batch may have more of them than there is room for: ragged values wait beside the slot."""
    chunks = documents(9, [1000] * 4 + [1] * 60, most=400, least=200)
    data = Tokens(tmp_path, chunks, text=lambda docs, k: 3 if len(docs) > 1 else 1 << 19)
    fields = {"x": lt.tokens("tokens"), "cu": lt.cu_seqlens("tokens"), "key": lt.key(), "i": lt.index()}
    want = {i: (t.tolist(), [0, *b, 100], f"{c}/{s}") for i, (t, (c, s), b) in enumerate(data.cut(100, 1))}
    options = {"batch_size": 64, "window": 4, "seed": 3, "last": "short", "view": lt.blocks(100), "as_numpy": True}
    budget = smallest_budget(lt, data.url, fields=fields, **options)
    runtime.wait_gone()
    seen = set()
    with lt.Loader(data.url, ram=budget, linger=0, fields=fields, **options) as loader:
        for batch in loader:
            for x, cu, key, i in zip(*batch):
                assert (x.tolist(), int32s(cu), key) == want[int(i)]
                seen.add(int(i))
        assert loader.stats()["batches_split"] > 0
    assert len(seen) == len(want)


@pytest.mark.parametrize("shape", ["samples", "stretch"])
def test_blocks_of_a_selection_are_made_of_its_documents_alone(lt, run_leat, tmp_path, shape):
    """Also where they were one stretch: what lies between them is not taken."""
    chunks = equal_chunks(5, 3, 4096, 2000, vocabulary=60000)
    Tokens(tmp_path, chunks, shape)
    count = sum(map(len, chunks))
    run_leat("select", "--quiet", "--numbers", f"1,3:20,{count - 9}:{count - 5}", "--name=some", tmp_path, status=0)
    chosen, at = [], 0
    for docs in chunks:
        numbers_here = range(at, at + len(docs))
        chosen.append([d for n, d in zip(numbers_here, docs) if n == 1 or 3 <= n < 20 or count - 9 <= n < count - 5])
        at += len(docs)
    assert not all(chosen)
    some = Tokens(tmp_path / "other", chosen)  # the same documents by themselves
    for view, want in ((lt.blocks(16), some.cut(16, 1)), (lt.blocks(100, 0, "fit"), some.fit(100, 0))):
        got = read(lt, f"{tmp_path}?name=some", view, {"x": lt.tokens("tokens"), "n": lt.length("tokens")})
        assert [x[:n].tolist() for x, n in zip(got["x"], got["n"])] == [block[0].tolist() for block in want]


# What cannot be


def refused(lt, url, fields, words, **options):
    with pytest.raises(lt.Error, match=words), lt.Loader(url, batch_size=1, fields=fields, **options) as loader:
        next(iter(loader))


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("blocks=0", "blocks='0' is not a whole number from 1"),
        ("blocks=-1", "blocks='-1' is not a whole number"),
        ("blocks=", "'blocks' needs a value"),
        ("blocks=8 shift=x", "shift='x' is not a whole number from 0"),
        ("block=8", "no word 'block': did you mean 'blocks'"),
        ("blocks=8 sift=1", "did you mean 'shift'"),
        ("chunks", "no word 'chunks'"),
        ("tokenise=8", "no word 'tokenise'; a view is"),
        ("blocks=8 blocks=9", "'blocks' is given twice"),
        ("shift=1", "blocks= is missing"),
        ("samples shift=1", "'samples' takes no other words"),
        ("samples=3", "'samples' takes no value"),
        ("blocks=8 documents=pack", "documents='pack' is not one of: cut fit"),
        ("blocks=8 field=other", "no field of tokens 'other'; it has: tokens"),
        ("blocks=1000000000 shift=1000000000", "more than the 1073741824"),
        ("blocks=2000000 documents=fit", "packs blocks of up to 1048576"),
        ("blocks=500000", r"no chunk has the 500000 \+ 1 tokens of a block, the largest has \d+"),
        ("blocks=8 field=" + "x" * 80, "no field has a name as long as"),
        ("b" * 300, "is too long"),
    ],
)
def test_bad_views_are_named(lt, datasets, view, words):
    refused(lt, datasets("samples").url, {"x": lt.tokens("tokens")}, words, view=view)


def test_bad_blocks_are_named_in_python(lt):
    for more, words in (
        ({"seq_len": 0}, "seq_len=0 is not a whole number from 1"),
        ({"seq_len": 8.5}, "seq_len=8.5"),
        ({"seq_len": 8, "shift": -1}, "shift=-1"),
        ({"seq_len": 8, "documents": "best"}, "neither"),
    ):
        with pytest.raises(lt.Error, match=words):
            lt.blocks(**more)
    assert str(lt.blocks(8, 0, "fit", "a")) == "blocks=8 shift=0 documents=fit field=a"
    assert lt.blocks(8) == lt.blocks(8, 1) != lt.blocks(8, 2)


def test_datasets_without_tokens_and_with_two_kinds_are_told_apart(lt, tmp_path, blobs):
    def fails(url, view, words):
        refused(lt, url, {"x": lt.tokens("a")}, words, view=view)

    fails(blobs.url, "blocks=8", r"needs a field of tokens, and the dataset has none; it has: bin \(bytes\)")
    fields = [Field(name, 8, {"dtype": "uint16"}) for name in ("a", "b")]
    values = {name: np.arange(n, dtype="uint16").tobytes() for name, n in (("a", 20), ("b", 40))}
    Place(tmp_path).write(fields, [[(b"k", values)]])
    fails(str(tmp_path), "blocks=8", "2 fields of tokens: name one with field= .a, b.")
    fails(str(tmp_path), "blocks=8 field=b", "output 'x': the blocks are made from field 'b', not from 'a'")
    got = read(lt, str(tmp_path), "field=b blocks=8", {"x": lt.tokens("b")})
    assert [x[0] for x in got["x"]] == [0, 8, 16, 24]
    with lt.Loader(str(tmp_path), view="blocks=8 field=b", batch_size=1, fields={"x": lt.tokens("b")}) as loader:
        assert loader.state_dict()["streams"][0]["view"] == "blocks=8 shift=1 field=b"


def test_outputs_that_a_block_does_not_have_are_refused(lt, datasets, squares):
    url = datasets("file").url
    for field, words in (
        (lt.bytes("tokens"), "is not possible with blocks of tokens"),
        (lt.tokens("tokens").pad(64), "pad=64: a block has 33 tokens"),
        (lt.tokens("tokens", default=3), "'default' is not possible for the tokens of a block"),
        (lt.tokens("tokens", dtype="float32"), "dtype='float32' is not one of: int64 int32"),
        (lt.cu_seqlens("tokens"), "give eos=, the token that ends one"),
        (lt.cu_seqlens("tokens", eos=70000), "eos or bos does not fit tokens of type uint16"),
        (lt.positions("tokens", eos=1, dtype="int8"), "dtype='int8' is not one of: int64 int32"),
        (lt.cu_seqlens("other", eos=1), "blocks are made from field 'tokens'"),
    ):
        refused(lt, url, {"x": field}, words, view="blocks=32")
    refused(lt, url, {"x": lt.cu_seqlens("tokens", eos=1)}, "output 'x': cu_seqlens needs blocks of tokens")
    words = "documents=fit needs a dataset that knows its documents"
    refused(lt, url, {"x": lt.tokens("tokens")}, words, view="blocks=32 documents=fit")


def test_a_table_of_samples_that_lies_is_damage(lt, tmp_path):
    """Its rows say other lengths than the chunk's own: an error that names the chunk, never other tokens."""
    place = Place(tmp_path)
    fields = [Field("tokens", 8, {"dtype": "uint16"}), Field("text", 1)]
    sample = {"tokens": np.arange(100, dtype="uint16").tobytes(), "text": b"between"}
    place.write(fields, [[(b"a", sample), (b"b", sample)]])
    [section] = [p for p in (tmp_path / "leat" / "sections").iterdir() if p.stat().st_size == 32]
    rows = bytearray(section.read_bytes())
    rows[4:8] = (400).to_bytes(4, "little")
    from format_writer import chunk_bytes, keys_section, root_bytes, schema_bytes

    chunk = chunk_bytes(fields, [(b"a", sample), (b"b", sample)], b"p" * 16, 0, 1)
    sections = [(1, bytes(rows), 0, 0), (2, keys_section([b"a", b"b"]), 0, 0)]
    for _, data, _, _ in sections:
        place.put_section(data)
    place.publish(root_bytes(schema_bytes(fields), [(2, chunk)], sections, [(b"p" * 16, 1)]))
    for view in ("blocks=280 shift=0", "blocks=250 shift=0 documents=fit"):
        fields = {"x": lt.tokens("tokens")}
        loader = lt.Loader(str(tmp_path), view=view, batch_size=1, last="short", shuffle=False, fields=fields)
        with loader, pytest.raises(lt.Error, match="chunk 0 has different lengths from those in the table of samples"):
            list(loader)


def test_tokens_in_no_block_are_told(lt, runtime, tmp_path, caplog):
    data = Tokens(tmp_path, [[np.zeros(1000, "uint16")], [np.zeros(100, "uint16")]])
    with lt.Loader(data.url, view="blocks=300 shift=1", batch_size=1, fields={"x": lt.tokens("tokens")}) as loader:
        next(iter(loader))
        assert loader.samples == 3
    assert "3 blocks of 300 + 1 tokens; of 1100 tokens, 199 (18.091 %) are in no block" in runtime.log()
    assert "18.1 % of the tokens are in no block of 300 + 1" in caplog.text


# Files as people have them


def test_blocks_of_a_file_where_it_lies(lt, run_leat, tmp_path):
    """Blocks go on over the ends of chunks: all of the file but its very end, each block once."""
    tokens = np.random.default_rng(1).integers(0, 1 << 16, size=100_003).astype("uint16")
    tokens.tofile(tmp_path / "train.bin")
    run_leat(
        "index", "--quiet", "--dtype=uint16", "--chunk-size=16kib", tmp_path / "train.bin", tmp_path / "set", status=0
    )
    for length, shift in ((512, 1), (512, 0), (8192, 1)):
        fields = {"x": lt.tokens("tokens", dtype="stored"), "key": lt.key()}
        got = read(lt, str(tmp_path / "set"), lt.blocks(length, shift), fields)
        assert len(got["x"]) == (len(tokens) - shift) // length
        for i, (x, key) in enumerate(zip(got["x"], got["key"])):
            assert np.array_equal(x, tokens[i * length : (i + 1) * length + shift])
            assert key == f"train.bin:{i * length // 8192 * 8192}"


def test_documents_of_a_megatron_file(lt, run_leat, tmp_path):
    draw = np.random.default_rng(2)
    docs = [draw.integers(0, 60_000, size=n).astype("int32") for n in draw.integers(1, 3000, size=60)]
    np.concatenate(docs).tofile(tmp_path / "text.bin")
    sizes = np.array([len(d) for d in docs], dtype="int32")
    with open(tmp_path / "text.idx", "wb") as idx:
        idx.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(docs), len(docs) + 1))
        idx.write(sizes.tobytes() + (4 * (np.cumsum(sizes, dtype="int64") - sizes)).astype("int64").tobytes())
        idx.write(np.arange(len(docs) + 1, dtype="int64").tobytes())
    run_leat("index", "--quiet", "--chunk-size=64kib", tmp_path / "text.bin", tmp_path / "set", status=0)
    flat, room = np.concatenate(docs), 1024
    cut = read(lt, str(tmp_path / "set"), lt.blocks(room), {"x": lt.tokens("tokens"), "cu": lt.cu_seqlens("tokens")})
    ends = np.cumsum(sizes)
    for i, (x, cu) in enumerate(zip(cut["x"], cut["cu"])):
        at = i * room
        assert x.tolist() == flat[at : at + room + 1].tolist()
        assert cu.tolist() == [0, *(int(e) - at for e in ends if at < e < at + room), room]
    fields = {"x": lt.tokens("tokens"), "n": lt.length("tokens"), "cu": lt.cu_seqlens("tokens")}
    fit = read(lt, str(tmp_path / "set"), lt.blocks(room, 0, "fit"), fields)
    parts = []
    for x, n, cu in zip(fit["x"], fit["n"], fit["cu"]):
        borders = [b for b in cu.tolist() if b < n] + [int(n)]
        parts += [tuple(x[a:b].tolist()) for a, b in zip(borders, borders[1:])]
    stretch = 16384  # tokens of a chunk: a document that goes on is two
    want, at = [], 0
    for d in docs:
        border = stretch - at % stretch
        for piece in (d[:border], d[border:]):
            want += [tuple(piece[i : i + room].tolist()) for i in range(0, len(piece), room)]
        at += len(d)
    assert sorted(parts) == sorted(want)


def test_borders_as_plain_tensors(lt, datasets):
    torch = pytest.importorskip("torch")
    data = datasets("samples")
    fields = {"cu": lt.cu_seqlens("tokens").ragged(), "list": lt.cu_seqlens("tokens")}
    with lt.Loader(data.url, view=lt.blocks(64), batch_size=4, shuffle=False, fields=fields) as loader:
        (values, offsets), ragged = next(iter(loader))
        assert values.dtype == torch.int32 and offsets.tolist()[0] == 0 and len(offsets) == 5
        for i, (_, _, borders) in enumerate(data.cut(64, 1)[:4]):
            assert values[offsets[i] : offsets[i + 1]].tolist() == ragged[i].tolist() == [0, *borders, 64]
        row = torch.repeat_interleave(torch.arange(4), offsets.diff())  # docs/tokens.md
        borders = torch.unique_consecutive(values + row * 64)
        want = [i * 64 + b for i, (_, _, found) in enumerate(data.cut(64, 1)[:4]) for b in [0, *found]]
        assert borders.tolist() == [*want, 4 * 64]


def test_torch_gets_int64_and_every_other_type(lt, datasets):
    torch = pytest.importorskip("torch")
    data = datasets("file")
    fields = {
        "x": lt.tokens("tokens"),
        "s": lt.tokens("tokens", dtype="stored"),
        "n": lt.tokens("tokens", dtype="int32"),
    }
    with lt.Loader(data.url, view=lt.blocks(64), batch_size=4, shuffle=False, fields=fields) as loader:
        x, s, n = next(iter(loader))
        assert (x.dtype, s.dtype, n.dtype) == (torch.int64, torch.uint16, torch.int32)
        assert x.shape == s.shape == n.shape == (4, 65)
        assert torch.equal(x, s.to(torch.int64)) and torch.equal(x, n.to(torch.int64))
        assert torch.equal(x[1:, 0], x[:-1, -1])  # the shift
        assert json.dumps(loader.state_dict())
