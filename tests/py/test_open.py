"""leat.open: samples by number and key, read directly."""

import io
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy
import pytest
from conftest import PYTHON_ENV
from faulty_server import black_hole
from loading import chunk_requests, upload, wait_until
from PIL import Image


def jpeg(seed, size=(40, 30)):
    pixels = numpy.random.default_rng(seed).integers(0, 255, (size[1] // 5, size[0] // 5, 3), dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(out, "JPEG", quality=90)
    return out.getvalue()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for c in ("cat", "dog"):
        (folder / c).mkdir()
        for i in range(10):
            (folder / c / f"{i}.jpg").write_bytes(jpeg(ord(c[0]) * 100 + i, (40 + i, 30)))
    return folder


@pytest.fixture
def dataset(files, tmp_path, run_leat):
    run_leat("pack", "--chunk-size", "4KiB", files, tmp_path / "ds", status=0)
    return tmp_path / "ds"


def test_samples_by_number_and_key_are_the_files(leat, files, dataset):
    ds = leat.open(dataset)
    assert len(ds) == 20
    assert set(ds.fields) == {"jpg", "cls"} and ds.fields["jpg"].type == "image"
    assert ds.classes == ["cat", "dog"]
    assert len(ds.version) == 64
    seen = set()
    for i, sample in enumerate(ds):
        assert isinstance(sample, dict) and sample.number == i
        path = files / sample.key
        assert sample["jpg"].bytes == path.read_bytes()
        assert sample["cls"] == ["cat", "dog"].index(path.parent.name)
        again = ds[sample.key]
        assert again.number == i and again == sample
        assert ds[i - 20].key == sample.key
        seen.add(sample.key)
    assert len(seen) == 20
    assert ds.find(b"dog/3.jpg") == ds["dog/3.jpg"].number
    assert "dog/3.jpg" in ds and "dog/33.jpg" not in ds


def test_slices_and_lists(leat, dataset):
    ds = leat.open(dataset)
    keys = [s.key for s in ds]
    assert [s.key for s in ds[3:9:2]] == keys[3:9:2]
    assert [s.key for s in ds[-3:]] == keys[-3:]
    assert [s.key for s in ds[::-1]] == keys[::-1]
    assert ds[20:30] == []
    assert [s.key for s in ds[[5, -1, 0]]] == [keys[5], keys[-1], keys[0]]
    assert [s.key for s in ds[numpy.array([2, 4])]] == [keys[2], keys[4]]
    assert ds[numpy.int64(7)].key == keys[7]


def test_errors_name_what_was_asked_for(leat, dataset, tmp_path):
    ds = leat.open(dataset)
    for wrong in (20, -21, 10**30):
        with pytest.raises(IndexError, match=str(wrong)):
            ds[wrong]
    with pytest.raises(KeyError, match="horse"):
        ds["horse/1.jpg"]
    for wrong in (1.5, None, True):
        with pytest.raises(TypeError):
            ds[wrong]
    with pytest.raises(leat.Error, match="nothing"):
        leat.open(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"'png'.*jpg"):
        leat.open(dataset, fields=["png"])
    with pytest.raises(ValueError, match="cache"):
        leat.open(dataset, cache="many")
    ds.close()
    with pytest.raises(ValueError, match="closed"):
        ds[0]


def test_pictures_are_decoded_when_asked_for(leat, dataset):
    sample = leat.open(dataset)["cat/4.jpg"]
    picture = sample["jpg"]
    assert (picture.width, picture.height) == (44, 30)
    right = numpy.asarray(Image.open(io.BytesIO(picture.bytes)).convert("RGB"))
    assert numpy.array_equal(numpy.asarray(picture), right)
    assert picture.shape == (30, 44, 3) and numpy.array_equal(picture[3:5, 1], right[3:5, 1])
    assert numpy.asarray(picture, dtype="float32").dtype == numpy.float32
    assert picture.decode("resize=10").shape == (10, 14, 3)
    assert picture.decode(leat.image("jpg").gray().center_crop(8)).shape == (8, 8, 1)
    with pytest.raises(leat.Error, match="uint8"):
        picture.decode("dtype=float32")
    shown = numpy.asarray(Image.open(io.BytesIO(picture._repr_png_())))
    assert numpy.array_equal(shown, right)


def test_fields_that_were_not_asked_for_are_left_out(leat, dataset):
    assert dict(leat.open(dataset, fields=["cls"])["dog/1.jpg"]) == {"cls": 1}


def test_a_damaged_picture_is_an_error_when_it_is_looked_at_and_not_before(leat, tmp_path, run_leat):
    (tmp_path / "f").mkdir()
    (tmp_path / "f/bad.jpg").write_bytes(jpeg(1)[:200])
    (tmp_path / "f/good.jpg").write_bytes(jpeg(2))
    run_leat("pack", tmp_path / "f", tmp_path / "ds", status=0)
    ds = leat.open(tmp_path / "ds")
    bad = ds["bad.jpg"]["jpg"]
    assert len(bad.bytes) == 200
    with pytest.raises(leat.Error):
        bad.array  # noqa: B018
    table = ds._repr_html_()
    assert table.count("<img") == 1 and "bad.jpg" in table


def test_a_table_for_people(leat, dataset):
    ds = leat.open(dataset)
    lines = repr(ds).splitlines()
    assert "20 samples" in lines[0] and ds.version[:12] in lines[0]
    assert "jpg (image)" in lines[1] and "… 12 more" in lines[-1]
    assert ds[0].key in lines[2]
    table = ds._repr_html_()
    assert table.count("data:image/png;base64,") == 8 and "jpg" in table


def test_keys_of_any_bytes_are_shown_harmlessly(leat, tmp_path, run_leat):
    (tmp_path / "f").mkdir()
    names = [b"a\x1b[31m.txt", b"b<script>.txt", b"c\xff.txt", b"d\n.txt"]
    for name in names:
        with open(os.fsencode(tmp_path / "f") + b"/" + name, "wb") as f:
            f.write(b"x")
    run_leat("pack", tmp_path / "f", tmp_path / "ds", status=0)
    ds = leat.open(tmp_path / "ds")
    assert {os.fsencode(s.key) for s in ds} == set(names)
    assert ds[names[2]].number == ds["c\udcff.txt"].number
    assert "\x1b" not in repr(ds) and "<script" not in ds._repr_html_() and len(repr(ds).splitlines()) == 6


def test_threads_share_one_dataset(leat, files, dataset):
    ds = leat.open(dataset, cache=1)  # one chunk is kept, so that threads take them from each other
    wrong = []

    def look(seed):
        for i in numpy.random.default_rng(seed).integers(0, 20, 200):
            sample = ds[int(i)]
            if sample["jpg"].bytes != (files / sample.key).read_bytes():
                wrong.append(sample.key)

    threads = [threading.Thread(target=look, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.fixture
def in_a_bucket(faulty, dataset):
    """A server with the dataset as s3://bucket/ds."""
    server = faulty()
    upload(server, dataset)
    return server


@pytest.fixture
def python(leat, in_a_bucket):
    """python(code): a program that can talk to that server, begun."""

    def start(code):
        package = os.path.dirname(os.path.dirname(leat.__file__))
        env = {**os.environ, **in_a_bucket.env(), **PYTHON_ENV, "PYTHONPATH": package}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        begun.append(subprocess.Popen([sys.executable, "-c", code], env=env, text=True, **pipes))
        return begun[-1]

    begun = []
    yield start
    for process in begun:
        process.kill()
        process.communicate()


def test_chunks_are_fetched_once_while_they_are_kept(in_a_bucket, python):
    process = python(
        "import leat, sys, threading\n"
        "ds = leat.open('s3://bucket/ds')\n"
        "ts = [threading.Thread(target=lambda: [ds[i] for i in range(20)]) for _ in range(4)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(len(ds), ds['cat/1.jpg']['cls'])\n"
    )
    out, stderr = process.communicate(timeout=60)
    assert out == "20 0\n", stderr
    asked = [request.key for request in chunk_requests(in_a_bucket)]
    assert len(asked) == len(set(asked)) > 1


def test_a_child_of_a_fork_goes_on_with_its_copy(leat, files, dataset):
    ds = leat.open(dataset)
    first = ds[0]
    context = multiprocessing.get_context("fork")
    ready, go = context.Pipe()
    stop = threading.Event()

    def busy():  # the lock may be taken at the moment of the fork
        while not stop.is_set():
            ds[numpy.random.randint(20)]

    thread = threading.Thread(target=busy)
    thread.start()

    def child(pipe):
        good = all(s["jpg"].bytes == (files / s.key).read_bytes() for s in ds) and ds[0] == first
        pipe.send((good, ds.version))

    try:
        for _ in range(5):
            process = context.Process(target=child, args=(go,))
            process.start()
            assert ready.poll(30), "the child hangs"
            assert ready.recv() == (True, ds.version)
            process.join(30)
            assert process.exitcode == 0
    finally:
        stop.set()
        thread.join()


def test_a_pickled_dataset_opens_the_same_version_again(leat, files, dataset, tmp_path, run_leat, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ds = leat.open("ds", fields=["cls"])
    text = pickle.dumps(ds)
    (files / "dog/0.jpg").rename(tmp_path / "0.jpg")
    try:
        run_leat("pack", "--replace", files, dataset, status=0)
    finally:
        (tmp_path / "0.jpg").rename(files / "dog/0.jpg")
    monkeypatch.chdir("/")
    again = pickle.loads(text)
    assert again.version == ds.version and len(again) == 20 and list(again) == list(ds)
    assert len(leat.open(dataset)) == 19
    assert len(leat.open(f"{dataset}?id={ds.version[:10]}")) == 20
    assert len(leat.open(dataset, version=ds.version)) == 20
    sample = pickle.loads(pickle.dumps(leat.open(dataset)[0]))
    assert sample == leat.open(dataset)[0] and sample.key == leat.open(dataset)[0].key


def test_ctrl_c_ends_a_wait(in_a_bucket, python):
    in_a_bucket.fault(black_hole, match=lambda request: "/chunks/" in request.key)
    process = python("import leat\nds = leat.open('s3://bucket/ds', timeout=600)\nprint(ds[0])")
    wait_until(lambda: chunk_requests(in_a_bucket), what="a request for a chunk")
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in said and not out


def test_a_file_that_is_not_the_json_it_should_be_is_named(leat, tmp_path, run_leat):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.json").write_text("{bad")
    (tmp_path / "files/b.json").write_text("[1]")
    run_leat("index", tmp_path / "files", tmp_path / "ds", status=0)
    ds = leat.open(tmp_path / "ds")
    assert ds["b.json"]["json"] == [1]
    with pytest.raises(leat.errors.CorruptError, match=r"'a.json'\): field 'json' is not what it should be"):
        ds["a.json"]
