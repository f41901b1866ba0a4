"""What `leat index` promises of token files: every token where it is, in stretches that blocks of any power of two fill;
documents where the files have them; and every file that is not what it says, named before anything is published."""

import json
import struct

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loading import import_leat
from shards import samples, write_llmc, write_megatron


def index(run_leat, *args, **more):
    args = ("--json", "--chunk-size", "8KiB", *args)
    return json.loads(run_leat("index", *args, status=0, **more).stdout)


def refused(run_leat, *args, dest, **more):
    """The error; nothing may have been published by then."""
    done = run_leat("index", *args, dest, **more)
    assert done.returncode != 0
    assert not (dest / "leat").exists(), "something was published"
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def draw(n, dtype, seed=1):
    top = min(2**31 - 1, numpy.iinfo(dtype).max)
    return numpy.random.default_rng(seed).integers(0, top, size=n, dtype=dtype)


def joined(url, dtype):
    """All tokens of a dataset without documents: of each chunk what is its own."""
    dataset = import_leat().open(str(url))
    about = dataset.fields["tokens"].about
    assert about["dtype"] == numpy.dtype(dtype).name and about["overlap"] == 1
    parts = [dict(sample)["tokens"] for sample in dataset]
    for one, other in zip(parts, parts[1:]):
        assert len(one) <= about["stretch"] + 1
        if len(one) == about["stretch"] + 1:
            assert one[-1] == other[0]
    return numpy.concatenate([part[: about["stretch"]] for part in parts])


# What comes out


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32"])
@pytest.mark.parametrize("count", [1, 2047, 4096, 4097, 30000])
def test_a_bare_file_gives_its_tokens(tmp_path, run_leat, dtype, count):
    tokens = draw(count, dtype)
    (tmp_path / "train.bin").write_bytes(tokens.tobytes())
    made = index(run_leat, "--dtype", dtype, tmp_path / "train.bin", tmp_path / "ds")
    assert (made["format"], made["tokens"], made["documents"]) == ("tokens", count, 0)
    assert (joined(tmp_path / "ds", dtype) == tokens).all()
    assert "all good" in run_leat("verify", tmp_path / "ds", status=0).stdout


@pytest.mark.parametrize(("magic", "dtype"), [(20240520, "uint16"), (20240801, "uint32")])
def test_headers_of_llm_c_are_known(tmp_path, run_leat, magic, dtype):
    tokens = draw(10000, dtype)
    write_llmc(tmp_path / "val.bin", tokens, magic)
    index(run_leat, tmp_path / "val.bin", tmp_path / "ds")
    assert (joined(tmp_path / "ds", dtype) == tokens).all()


def test_numpy_files_in_a_folder_follow_each_other(tmp_path, run_leat):
    folder = tmp_path / "npy"
    folder.mkdir()
    parts = [draw(5000 + i, "uint32", i) for i in range(3)]
    for i, part in enumerate(parts):
        numpy.save(folder / f"{i}.npy", part)
    (folder / "notes.txt").write_text("x")
    made = index(run_leat, "--format", "tokens", folder, tmp_path / "ds")
    assert (made["objects"], made["other_objects"]) == (3, 1)
    found = samples(tmp_path / "ds")
    assert list(found)[:4] == ["0.npy:0", "0.npy:2048", "0.npy:4096", "1.npy:0"]
    own = [found[k]["tokens"][:2048] for k in found]
    assert (numpy.concatenate(own) == numpy.concatenate(parts)).all()


def test_documents_of_megatron_are_samples(tmp_path, run_leat):
    documents = [[draw(n, "uint16", n)] for n in (10, 4000, 0, 96, 3, 12000, 1)]
    documents[4] += [draw(50, "uint16"), draw(1, "uint16")]  # of three sequences
    write_megatron(tmp_path / "corpus_text_document.bin", documents)
    made = index(run_leat, tmp_path / "corpus_text_document.bin", tmp_path / "ds")
    assert (made["documents"], made["tokens"]) == (7, sum(len(s) for d in documents for s in d))
    assert reassembled(tmp_path / "ds") == [numpy.concatenate(d).tolist() for d in documents]


def reassembled(url):
    """Documents, put together from their parts: one that goes on has the next part's first token, too."""
    found = {}
    for key, sample in samples(url).items():
        number, _, at = key.split("#")[1].partition("+")
        tokens = sample["tokens"].tolist()
        before = found.setdefault(int(number), [])
        assert before[int(at or 0) :] == (tokens[:1] if before else [])
        found[int(number)] = before[: int(at or 0)] + tokens
    assert list(found) == list(range(len(found)))
    return list(found.values())


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.one_of(st.integers(0, 40), st.integers(0, 9000), st.sampled_from([4095, 4096, 4097, 8192])),
                     min_size=1, max_size=30).filter(any),
    dtype=st.sampled_from(["uint16", "int32"]),
)  # fmt: skip
def test_documents_of_any_lengths_come_out_whole(tmp_path_factory, run_leat, lengths, dtype):
    folder = tmp_path_factory.mktemp("megatron")
    documents = [[draw(n, dtype, i)] for i, n in enumerate(lengths)]
    write_megatron(folder / "x.bin", documents)
    index(run_leat, folder / "x.bin", folder / "ds")
    assert reassembled(folder / "ds") == [d[0].tolist() for d in documents]


def blocks_of(lt, url, length):
    """All blocks of an epoch, as bytes."""
    fields = {"x": lt.tokens("tokens")}
    with lt.Loader(url, fields=fields, view=lt.blocks(length), batch_size=64, last="short", as_numpy=True) as loader:
        rows = [row.astype("uint16").tobytes() for (x,) in loader for row in x]
    assert all(len(row) == 2 * (length + 1) for row in rows)
    return sorted(rows)


@pytest.mark.parametrize("length", [1, 64, 1024, 4096])
def test_blocks_of_powers_of_two_lose_nothing_at_the_borders_of_chunks(lt, tmp_path, run_leat, length):
    tokens = draw(4096 * 12 + 1, "uint16")
    expected = sorted(tokens[i : i + length + 1].tobytes() for i in range(0, len(tokens) - 1, length))
    (tmp_path / "train.bin").write_bytes(tokens.tobytes())
    index(run_leat, "--dtype", "uint16", tmp_path / "train.bin", tmp_path / "bare")
    assert blocks_of(lt, tmp_path / "bare", length) == expected
    # One document ends where a chunk does, so that the token beyond belongs to no sample; others go on.
    write_megatron(tmp_path / "m.bin", [[part] for part in numpy.split(tokens, [100, 4096, 9000, 9000, 30000])])
    index(run_leat, tmp_path / "m.bin", tmp_path / "documents")
    assert blocks_of(lt, tmp_path / "documents", length) == expected


def test_tokens_in_a_bucket_are_not_read_for_indexing(tmp_path, serve, bucket_dir, run_leat, monkeypatch):
    server = serve(bucket_dir)
    env = server.s3_env()
    for name, value in env.items():
        monkeypatch.setenv(name, str(value))
    parts = [draw(200000, "uint16", i) for i in range(2)]
    for i, part in enumerate(parts):
        (tmp_path / f"{i:03}.bin").write_bytes(part.tobytes())
        run_leat("cp", tmp_path / f"{i:03}.bin", f"s3://bucket/t/{i:03}.bin", env=env, status=0)
    before = server.stats()["bytes_sent"]
    index(run_leat, "--dtype", "uint16", "s3://bucket/t/{000..001}.bin", tmp_path / "ds", env=env)
    assert server.stats()["bytes_sent"] - before < 200000  # of 800,000: their beginnings
    assert (joined(tmp_path / "ds", "uint16") == numpy.concatenate(parts)).all()


# What is refused


def test_files_that_are_not_what_they_say_are_named(tmp_path, run_leat):
    dest = tmp_path / "ds"
    path = tmp_path / "x.bin"
    path.write_bytes(b"")
    assert "x.bin: it is empty" in refused(run_leat, "--dtype", "uint16", path, dest=dest)
    path.write_bytes(b"123")
    assert "x.bin: it has 3 bytes" in refused(run_leat, "--dtype", "uint16", path, dest=dest)
    path.write_bytes(b"1234")
    assert "--dtype uint16, uint32 or int32" in refused(run_leat, path, dest=dest)
    assert "'int64' is not a type of tokens" in refused(run_leat, "--dtype", "int64", path, dest=dest)
    write_llmc(path, draw(100, "uint16"), 20240520)
    path.write_bytes(path.read_bytes()[:-2])
    assert "x.bin: its header (20240520) says 100 tokens" in refused(run_leat, path, dest=dest)
    numpy.save(tmp_path / "x.npy", numpy.zeros((3, 4), "uint16"))
    assert "x.npy: it has 2 dimensions" in refused(run_leat, tmp_path / "x.npy", dest=dest)
    numpy.save(tmp_path / "x.npy", numpy.zeros(9, "int64"))
    assert "x.npy: its numbers are of type '<i8'" in refused(run_leat, tmp_path / "x.npy", dest=dest)
    numpy.save(tmp_path / "x.npy", numpy.zeros(9, "float32"))
    assert "'<f4'" in refused(run_leat, tmp_path / "x.npy", dest=dest)


def test_files_of_different_types_are_no_dataset(tmp_path, run_leat):
    numpy.save(tmp_path / "a.npy", draw(10, "uint16"))
    numpy.save(tmp_path / "b.npy", draw(10, "uint32"))
    said = refused(run_leat, tmp_path / "{a,b}.npy", dest=tmp_path / "ds")
    assert "b.npy: its tokens are uint32, but those of" in said and "a.npy' are uint16" in said


def test_an_idx_that_lies_is_named(tmp_path, run_leat):
    path = write_megatron(tmp_path / "c.bin", [[draw(10, "int32")], [draw(20, "int32")]])
    idx = path.with_suffix(".idx")
    good = idx.read_bytes()
    path.write_bytes(path.read_bytes()[:-4])
    said = refused(run_leat, path, dest=tmp_path / "ds")
    assert "c.idx: sequence 1 has 20 tokens from token 10 on, and the .bin has 29" in said
    path.write_bytes(path.read_bytes() + bytes(8))
    assert "c.idx: its documents have 30 tokens, and the .bin has 31" in refused(run_leat, path, dest=tmp_path / "ds")
    idx.write_bytes(b"XX" + good[2:])
    assert "c.idx: it does not begin as an .idx of Megatron does" in refused(run_leat, path, dest=tmp_path / "ds")
    idx.write_bytes(good[:-3])
    assert "c.idx: it has" in refused(run_leat, path, dest=tmp_path / "ds")
    idx.write_bytes(good[:18] + struct.pack("<Q", 2**60) + good[26:])
    assert "c.idx: it says" in refused(run_leat, path, dest=tmp_path / "ds")


def test_options_that_mean_nothing_for_tokens_are_refused(tmp_path, run_leat):
    (tmp_path / "x.bin").write_bytes(b"1234")
    for args, words in (
        (("--group",), "--group is for raw objects"),
        (("--type", "tokens=bytes"), "--type is not for tokens"),
    ):
        assert words in refused(run_leat, "--dtype", "uint16", *args, tmp_path / "x.bin", dest=tmp_path / "ds")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "x.txt").write_bytes(b"1234")
    assert "--dtype is for tokens" in refused(run_leat, "--dtype", "uint16", tmp_path / "f", dest=tmp_path / "ds")
