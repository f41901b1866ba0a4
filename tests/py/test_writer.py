"""leat.Writer: what is written is what is read, all of it or nothing."""

import io
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy
import pytest
from conftest import PRELOAD
from format_reader import Dataset as Plain
from PIL import Image


def picture(seed, form="PNG"):
    out = io.BytesIO()
    pixels = numpy.random.default_rng(seed).integers(0, 255, (8, 9, 3), dtype=numpy.uint8)
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def objects(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("compress", [False, True])
def test_every_kind_of_field_comes_back(leat, tmp_path, compress):
    fields = {
        "png": "image",
        "raw": "bytes",
        "n": "int",
        "x": "float",
        "text": "string",
        "meta": "json",
        "emb": leat.Array("float32", [3, None]),
        "fixed": leat.Array("int16", [2, 2]),
        "ids": leat.Tokens("uint16"),
        "cls": leat.Label(["cat", "dog"]),
        "maybe": leat.Optional("int"),
        "box": leat.Optional(leat.Array("float64", [4])),
    }
    samples = []
    for i in range(50):
        samples.append(
            {
                "png": picture(i),
                "raw": os.urandom(i),
                "n": (-1) ** i * i * 10**16,
                "x": i / 7,
                "text": "ä" * i,
                "meta": {"i": i, "list": [None, True, "ü"]},
                "emb": numpy.arange(3 * i, dtype="float32").reshape(3, i),
                "fixed": numpy.full((2, 2), i, "int16"),
                "ids": numpy.arange(i, dtype="uint16"),
                "cls": i % 2,
                "maybe": None if i % 3 else i,
                "box": None if i % 2 else numpy.arange(4.0),
            }
        )
    with leat.Writer(tmp_path / "ds", fields=fields, chunk_size="4KiB", compress=compress) as w:
        for i, sample in enumerate(samples):
            w.write(sample, key=f"k/{i}")
        assert w.samples == 50
    ds = leat.open(tmp_path / "ds")
    assert ds.version == w.version and len(ds) == 50 and ds.classes == ["cat", "dog"]
    assert {n: f.type for n, f in ds.fields.items()}["emb"] == "array"
    assert ds.fields["maybe"].optional and not ds.fields["n"].optional
    for i, (sample, wanted) in enumerate(zip(ds, samples, strict=True)):
        assert sample.key == f"k/{i}"
        assert sample["png"].bytes == wanted["png"]
        for name in ("raw", "n", "x", "text", "meta", "cls", "maybe"):
            assert sample[name] == wanted[name], name
        for name in ("emb", "fixed", "ids", "box"):
            assert (sample[name] is None) == (wanted[name] is None)
            assert wanted[name] is None or numpy.array_equal(sample[name], wanted[name])
            assert wanted[name] is None or sample[name].dtype == wanted[name].dtype
    if not compress:  # another reader agrees
        assert [s.key for s in Plain(tmp_path / "ds")] == [f"k/{i}".encode() for i in range(50)]


def test_lists_tensors_and_names_of_labels_are_taken(leat, tmp_path):
    import torch

    fields = {
        "a": leat.Array(torch.float32, [2]),
        "b": leat.Array("bfloat16", [3]),
        "t": leat.Tokens(numpy.int32),
        "c": leat.Label(["x", "y"]),
    }
    with leat.Writer(tmp_path / "ds", fields) as w:
        w.write({"a": [1, 2.5], "b": torch.tensor([1, 2, 3], dtype=torch.bfloat16), "t": [1, 2], "c": "y"})
        w.write({"a": torch.tensor([3.0, 4]), "b": torch.zeros(3).bfloat16(), "t": torch.tensor([7]).int(), "c": 0})
    ds = leat.open(tmp_path / "ds")
    assert ds[0]["a"].tolist() == [1, 2.5] and ds[1]["a"].tolist() == [3, 4]
    assert (ds[0]["b"].astype("uint32") << 16).view("float32").tolist() == [1, 2, 3]
    assert ds[0]["t"].tolist() == [1, 2] and ds[1]["t"].tolist() == [7]
    assert [s["c"] for s in ds] == [1, 0] and ds[0].key == ""


def test_bad_values_name_field_key_and_what_was_expected(leat, tmp_path):
    fields = {
        "png": "image",
        "n": "int",
        "x": "float",
        "s": "string",
        "b": "bytes",
        "j": "json",
        "a": leat.Array("float32", [2, None]),
        "t": leat.Tokens("uint16"),
        "l": leat.Label(["x", "y"]),
    }
    good = {"png": picture(1), "n": 1, "x": 1.0, "s": "s", "b": b"b", "j": [1], "a": [[1.0], [2.0]], "t": [1], "l": 0}
    wrong = {
        "png": [("text", "encoded file"), (b"no image at all", "none of JPEG"), (None, "not optional")],
        "n": [("1", "whole number"), (1.5, "whole number"), (2**63, "64 bits")],
        "x": [("1", "a number"), ([], "a number")],
        "s": [(b"s", "a str"), (5, "a str")],
        "b": [("b", "bytes")],
        "j": [({1, 2}, "JSON"), (float("nan"), "JSON")],
        "a": [
            ([1.0, 2.0], "shape"),
            (numpy.zeros((3, 4), "float32"), r"shape \[2, None\], not \[3, 4\]"),
            (numpy.zeros((2, 4)), "float32, not float64"),
            ("no", "float32"),
        ],
        "t": [([70000], "uint16"), ([[1]], "in a row"), (numpy.array([1.5]), "uint16"), ([-1], "uint16")],
        "l": [("z", "names of labels"), (2, "from 0 to 1"), (-1, "from 0 to 1")],
    }
    with leat.Writer(tmp_path / "ds", fields) as w:
        for name, cases in wrong.items():
            for value, words in cases:
                with pytest.raises(ValueError, match=f"(?s)'k/7'.*'{name}'.*{words}"):
                    w.write({**good, name: value}, key="k/7")
        with pytest.raises(ValueError, match="no field 'more'"):
            w.write({**good, "more": 1}, key="k")
        with pytest.raises(ValueError, match="'n' has no value"):
            w.write({k: v for k, v in good.items() if k != "n"}, key="k")
        with pytest.raises(ValueError, match="key"):
            w.write(good, key=5)
        w.write(good, key="right")
        assert w.samples == 1
    assert [s.key for s in leat.open(tmp_path / "ds")] == ["right"]


def test_bad_settings_are_refused_before_anything_is_written(leat, tmp_path):
    for wrong, words in [
        ({"fields": {}}, "fields"),
        ({"fields": {"x": "number"}}, "'x'.*'number'"),
        ({"fields": {"x": "array"}}, "leat.Array"),
        ({"fields": {"a b": "int"}}, "a b"),
        ({"chunk_size": "1KiB"}, "chunk_size"),
        ({"compress": ["y"]}, "'y'"),
        ({"compress": ["x"]}, "'x'.*int"),
        ({"compress": "zstd"}, "compress"),
        ({"no_current": True}, "name"),
        ({"part": (2, 2)}, "part"),
        ({"part": 3}, "part"),
        ({"part": (0, 2), "name": "x"}, "merge"),
        ({"name": "a/b"}, "a/b"),
    ]:
        with pytest.raises(ValueError, match=words):
            leat.Writer(tmp_path / "ds", **{"fields": {"x": "int"}, **wrong})
    with pytest.raises(ValueError, match="dtype"):
        leat.Array("float31", [3])
    with pytest.raises(ValueError, match="shape"):
        leat.Array("float32", [0])
    assert not (tmp_path / "ds").exists()


def test_an_exception_publishes_nothing(leat, tmp_path):
    class Own(Exception):
        pass

    with pytest.raises(Own), leat.Writer(tmp_path / "ds", {"b": "bytes"}, chunk_size=4096) as w:
        for i in range(100):
            w.write({"b": bytes(500)}, key=str(i))
        raise Own
    names = objects(tmp_path / "ds")
    assert names and all(n.startswith("leat/chunks/") for n in names)
    with pytest.raises(leat.Error):
        leat.open(tmp_path / "ds")
    with pytest.raises(ValueError, match="closed"):
        w.write({"b": b""})


def test_an_empty_dataset_is_refused(leat, tmp_path):
    with pytest.raises(ValueError, match="no samples"), leat.Writer(tmp_path / "ds", {"b": "bytes"}):
        pass
    assert not (tmp_path / "ds/leat/current").exists()


def test_what_is_there_is_not_replaced_unasked(leat, tmp_path):
    def write(value, **more):
        with leat.Writer(tmp_path / "ds", {"n": "int"}, **more) as w:
            w.write({"n": value})
        return w.version

    first = write(1)
    with pytest.raises(FileExistsError):
        write(2)
    second = write(2, replace=True)
    assert leat.open(tmp_path / "ds")[0]["n"] == 2
    assert leat.open(tmp_path / "ds", version=first)[0]["n"] == 1
    write(3, name="three", no_current=True)
    assert leat.open(tmp_path / "ds").version == second
    assert leat.open(f"{tmp_path / 'ds'}?name=three")[0]["n"] == 3


def test_threads_write_every_sample_once(leat, tmp_path):
    with leat.Writer(tmp_path / "ds", {"b": "bytes", "n": "int"}, chunk_size=4096) as w:

        def work(t):
            for i in range(300):
                w.write({"b": bytes([t]) * (i % 50), "n": 1000 * t + i}, key=f"{t}/{i}")

        threads = [threading.Thread(target=work, args=(t,)) for t in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    ds = leat.open(tmp_path / "ds")
    assert sorted(s["n"] for s in ds) == sorted(1000 * t + i for t in range(6) for i in range(300))
    assert all(s.key == f"{s['n'] // 1000}/{s['n'] % 1000}" for s in ds)


def write_part(url, i, n, keep):
    import leat

    with leat.Writer(url, {"n": "int", "b": "bytes"}, part=(i, n), chunk_size=4096) as w:
        for k in range(i, 1000, n):
            w.write({"n": k, "b": b"x" * (k % 100)}, key=f"{k:04}")
        if not keep:
            os._exit(9)


@pytest.mark.skipif(bool(PRELOAD), reason="processes that are spawned do not get the sanitizer's runtime")
def test_many_processes_write_parts_that_are_merged(leat, tmp_path, run_leat):
    url, n = str(tmp_path / "ds"), 4
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_part, args=(url, i, n, i != 2)) for i in range(n)]
    for p in workers:
        p.start()
    for p in workers:
        p.join(60)
    assert [p.exitcode for p in workers] == [0, 0, 9, 0]
    with pytest.raises(FileNotFoundError, match="part 2 of 4"):
        leat.Writer.merge(url, n)
    with pytest.raises(leat.Error):
        leat.open(url)  # parts are not a dataset yet
    again = context.Process(target=write_part, args=(url, 2, n, True))
    again.start()
    again.join(60)
    version = leat.Writer.merge(url, n)
    ds = leat.open(url)
    assert ds.version == version and len(ds) == 1000
    assert [s["n"] for s in ds] == [k for i in range(n) for k in range(i, 1000, n)]
    assert ds["0437"]["n"] == 437 and all(s["b"] == b"x" * (s["n"] % 100) for s in ds)
    assert not any("leat-part" in name for name in objects(tmp_path / "ds"))
    run_leat("verify", url, status=0)
    with pytest.raises(FileNotFoundError, match="part 0"):
        leat.Writer.merge(url, n, replace=True)


def test_a_part_may_have_no_samples(leat, tmp_path):
    def part(i, n, values, place="ds"):
        with leat.Writer(tmp_path / place, fields={"n": "int"}, part=(i, n)) as w:
            for value in values:
                w.write({"n": value})
        return w.version

    assert part(0, 3, []) == ""
    assert part(1, 3, [5, 6])
    with pytest.raises(leat.Error, match="part 2 of 3 is not finished"):
        leat.Writer.merge(tmp_path / "ds", 3)
    part(2, 3, [])
    leat.Writer.merge(tmp_path / "ds", 3)
    assert [s["n"] for s in leat.open(tmp_path / "ds")] == [5, 6]
    assert not list((tmp_path / "ds/leat/partial").iterdir())
    # What an earlier attempt had, or did not have, is forgotten.
    part(0, 2, [], "again"), part(1, 2, [1], "again")
    part(0, 2, [2], "again"), part(1, 2, [], "again")
    leat.Writer.merge(tmp_path / "again", 2)
    assert [s["n"] for s in leat.open(tmp_path / "again")] == [2]
    part(0, 1, [], "none")
    with pytest.raises(leat.Error, match="none of the 1 parts has samples"):
        leat.Writer.merge(tmp_path / "none", 1)


def test_lists_are_not_rounded_or_read_as_something_else(leat, tmp_path):
    fields = {"t": leat.Tokens("uint16"), "a": leat.Array("float32", [2]), "b": leat.Array("int8", [None])}
    good = {"t": [0, 65535], "a": [0.1, 3], "b": [-128, 127]}
    with leat.Writer(tmp_path / "ds", fields=fields) as w:
        for bad in (
            {"t": [1.5]},
            {"t": [65536]},
            {"t": [-1]},
            {"t": ["1"]},
            {"t": [10**30]},
            {"t": [None]},
            {"t": [float("nan")]},
            {"a": [1e300, 0]},
            {"a": ["1", "2"]},
            {"b": [128]},
            {"b": [0.5]},
        ):
            with pytest.raises(leat.Error, match=r"sample 'k': field '[tab]' is .*; expected was an array of"):
                w.write(good | bad, key="k")
        w.write(good | {"t": [1.0, 2]})  # whole, and nothing lost
        w.write(good | {"a": [float("inf"), float("nan")], "t": [], "b": ()})
    first, second = leat.open(tmp_path / "ds")
    assert (first["t"].tolist(), second["t"].tolist(), second["b"].tolist()) == ([1, 2], [], [])
    assert first["a"].tolist() == numpy.asarray([0.1, 3], "float32").tolist()
    assert second["a"][0] == numpy.inf


def test_parts_in_a_bucket(leat, tmp_path, serve, bucket_dir, monkeypatch):
    server = serve(bucket_dir)
    for name, value in server.s3_env().items():
        monkeypatch.setenv(name, value)
    for i in range(2):
        with leat.Writer("s3://bucket/ds", {"n": "int"}, part=(i, 2)) as w:
            w.write({"n": i}, key=str(i))
    leat.Writer.merge("s3://bucket/ds", 2, name="both")
    assert [s["n"] for s in leat.open("s3://bucket/ds")] == [0, 1]
    assert len(leat.open("s3://bucket/ds?name=both")) == 2


def test_a_forked_child_is_told_to_write_a_part(leat, tmp_path):
    w = leat.Writer(tmp_path / "ds", {"n": "int"})
    w.write({"n": 1})
    pid = os.fork()
    if pid == 0:
        try:
            w.write({"n": 2})
        except ValueError as error:
            os._exit(0 if "part" in str(error) else 3)
        except BaseException:
            os._exit(4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    w.finish()
    assert len(leat.open(tmp_path / "ds")) == 1


def test_a_killed_writer_leaves_nothing_that_is_seen(leat, tmp_path):
    code = (
        "import leat, sys, os, signal\n"
        "w = leat.Writer(sys.argv[1], {'b': 'bytes'}, chunk_size=4096)\n"
        "for i in range(100): w.write({'b': os.urandom(1000)}, key=str(i))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(leat.__file__))}
    subprocess.run([sys.executable, "-c", code, tmp_path / "ds"], env=env, timeout=60, check=False)
    with pytest.raises(leat.Error):
        leat.open(tmp_path / "ds")
    with leat.Writer(tmp_path / "ds", {"b": "bytes"}) as w:
        w.write({"b": b"1"})
    assert len(leat.open(tmp_path / "ds")) == 1


def test_a_loader_reads_what_was_written_in_parts(lt, tmp_path):
    fields = {"png": "image", "n": "int", "x": "float", "a": lt.Array("float32", [2])}
    pictures = [picture(i) for i in range(40)]
    for part in range(2):
        with lt.Writer(tmp_path / "ds", fields, part=(part, 2), chunk_size=4096) as w:
            for i in range(20 * part, 20 * part + 20):
                w.write({"png": pictures[i], "n": i, "x": i / 2, "a": [i, -i]}, key=str(i))
    lt.Writer.merge(tmp_path / "ds", 2)
    outputs = {"png": lt.image("png").center_crop(8), "n": lt.int("n"), "x": lt.float("x"), "a": lt.array("a")}
    seen = []
    with lt.Loader(tmp_path / "ds", fields=outputs, batch_size=8, as_numpy=True, as_dict=True, timeout=60) as loader:
        for batch in loader:
            for i, n in enumerate(batch["n"].tolist()):
                right = numpy.asarray(Image.open(io.BytesIO(pictures[n])).convert("RGB"))
                assert batch["x"][i] == n / 2 and batch["a"][i].tolist() == [n, -n]
                assert batch["png"][i].shape == (8, 8, 3) and batch["png"][i].max() <= right.max()
                seen.append(n)
    assert sorted(seen) == list(range(40))
