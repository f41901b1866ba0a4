"""leat show, and ls and cat of samples: datasets as a person or a script looks at them."""

import io
import json
import subprocess

import numpy as np
import pytest
from format_reader import ABSENT
from format_writer import Field, Place
from PIL import Image


def picture(i):
    out = io.BytesIO()
    Image.fromarray(np.full((40, 60 + i, 3), (i * 20, 0, 255 - i * 20), np.uint8)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def ds(leat, tmp_path_factory):
    """Twelve samples with a field of every kind."""
    path = tmp_path_factory.mktemp("show") / "ds"
    fields = {
        "png": "image", "cls": leat.Label(["cat", "dog"]), "w": "float", "text": "string", "meta": "json",
        "emb": leat.Array("float32", [3, None]), "half": leat.Array("float16", [2]), "tok": leat.Tokens("uint16"),
        "raw": "bytes", "opt": leat.Optional("int"),
    }  # fmt: skip
    with leat.Writer(path, fields=fields) as w:
        for i in range(12):
            sample = {
                "png": picture(i), "cls": i % 2, "w": i / 8, "text": f"line\n{i} \x1b[31m" + "x" * (i * 40),
                "meta": {"a": [1, {"b": "\u00e9\u202e\\"}], "n": i},
                "emb": np.arange(3 * (i + 1), dtype=np.float32).reshape(3, i + 1) / 2,
                "half": np.array([-1.5, i], np.float16), "tok": np.arange(i * 30, dtype=np.uint16),
                "raw": bytes(range(i * 3)),
            }  # fmt: skip
            if i % 3:
                sample["opt"] = -i
            w.write(sample, key=f"a/{i}")
    return path


def shown(run_leat, *args):
    return run_leat("show", *args, status=0).stdout


def test_every_kind_of_field_is_shown(ds, run_leat):
    lines = shown(run_leat, ds, 4).splitlines()
    values = {line.split()[0]: line.split(None, 2)[2] for line in lines[1:] if line[2] != " "}
    assert lines[0] == "sample 4  a/4"
    assert values["png"].startswith("PNG 64x40, 3 channels, ")
    assert values["cls"] == "0 (cat)"
    assert values["w"] == "0.5"
    assert values["text"].startswith(r'"line\x0a4 \x1b[31mxxxx')
    assert values["text"].endswith('…" (172 B)')
    assert values["emb"].startswith("float32 3x5: 0 0.5 1 1.5 2 ")
    assert values["half"] == "float16 2: -1.5 4"
    assert values["tok"].startswith("uint16 x 120: 0 1 2 3 ")
    assert values["raw"] == "12 B: 00 01 02 03 04 05 06 07 08 09 0a 0b"
    assert values["opt"] == "-4"
    assert any(line.strip() == '"b": "é\\xe2\\x80\\xae\\\\"' for line in lines)
    assert "opt   int     none" in shown(run_leat, ds, 3)
    assert shown(run_leat, "--key", "a/7", ds).startswith("sample 7  a/7\n")
    assert shown(run_leat, ds, "-c", "3", "9").count("sample ") == 3
    assert "there is no sample 12" in run_leat("show", ds, 12, status=3).stderr
    assert "no sample has the key" in run_leat("show", ds, "-k", "b", status=3).stderr
    assert "give a number or a key" in run_leat("show", ds, 1, "-k", "b", status=2).stderr


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_lines_are_as_wide_as_they_may_be(ds, run_leat, width):
    for line in shown(run_leat, "--width", width, ds, 11).splitlines():
        assert len(line) <= width
    assert max(len(line) for line in shown(run_leat, "--width", width, ds, 11).splitlines()) > width - 20


def test_the_terminal_says_how_wide(ds, leat_bin, clean_env):
    command = f"stty cols 64; {leat_bin} show {ds} 11"
    out = subprocess.run(["script", "-qec", command, "/dev/null"], env=clean_env, capture_output=True, timeout=60)
    lines = out.stdout.decode().replace("\r", "").splitlines()
    assert lines[0] == "sample 11  a/11"
    assert 50 < max(len(line) for line in lines) <= 64


def test_pictures_go_on_a_sheet(ds, run_leat, tmp_path):
    sheet = tmp_path / "sheet.png"
    lines = shown(run_leat, ds, "-o", sheet, "-c", 10, "--size", 71, "--columns", 4, 2).splitlines()
    assert lines[0] == "0\t0\t2\ta/2"
    assert lines[5] == "1\t1\t7\ta/7"
    image = np.asarray(Image.open(sheet).convert("RGB")).astype(int)
    assert image.shape == (3 * 75 - 4, 4 * 75 - 4, 3)
    for place in range(10):
        i = place + 2
        y, x = place // 4 * 75 + 35, place % 4 * 75 + 35
        assert np.abs(image[y, x] - (i * 20, 0, 255 - i * 20)).max() <= 2
    assert (image[2 * 75 + 35, 3 * 75 + 35] == 255).all()
    high = round(40 * 71 / 62)
    top = (71 - high) // 2
    assert (image[top - 1, 35] == 255).all()
    assert (image[top, 35] != 255).any()


def test_a_picture_that_cannot_be_decoded_is_said(tmp_path, run_leat):
    good = io.BytesIO()
    Image.new("RGB", (20, 20), (255, 0, 0)).save(good, "PNG")
    cell = (20, 20, 1200, 2, 3, 0, 0)
    samples = [(b"good", {"png": (good.getvalue(), cell)}), (b"bad", {"png": (good.getvalue()[:60], cell)})]
    Place(tmp_path / "ds").write([Field("png", 2)], [samples])
    result = run_leat("show", tmp_path / "ds", "-o", tmp_path / "sheet.png", "--size", 20, status=6)
    assert "1 of 2 pictures cannot be shown" in result.stderr
    assert result.stdout.splitlines()[1].startswith("0\t1\t1\tbad\t")
    image = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert tuple(image[10, 10]) == (255, 0, 0)
    assert tuple(image[10, 34]) == (160, 160, 160)
    Place(tmp_path / "plain").write([Field("cls", 3)], [[(b"a", {"cls": 1})]])
    says = run_leat("show", tmp_path / "plain", "-o", tmp_path / "x.png", status=2).stderr
    assert "the dataset has no images" in says
    assert not (tmp_path / "x.png").exists()


KEYS = [
    b"plain",
    b"two\nlines",
    b"\xff\xfe",
    "schön".encode(),
    b"back\\slash",
    b"\x1b[2J",
    "\u202eevil".encode(),
    b"\x7f\xc2\x9b",
    b"",
]


def test_floats_that_json_has_no_number_for_are_not_absent(tmp_path, run_leat):
    values = [1.5, float("nan"), float("inf"), float("-inf"), ABSENT]
    samples = [(b"%d" % i, {"score": value}) for i, value in enumerate(values)]
    Place(tmp_path / "ds").write([Field("score", 5, optional=True)], [samples])
    lines = run_leat("ls", "--samples", "--json", tmp_path / "ds", status=0).stdout.splitlines()
    found = [json.loads(line)["fields"]["score"] for line in lines]
    assert found == [1.5, "NaN", "Infinity", "-Infinity", None]


def test_keys_of_any_bytes_are_listed(tmp_path, run_leat):
    ds = tmp_path / "ds"
    Place(ds).write([Field("cls", 3), Field("data", 1)], [[(key, {"cls": 7, "data": b"xy"})] for key in KEYS])
    lines = run_leat("ls", "--samples", ds, status=0).stdout.splitlines()
    assert [line.split("\t")[1] for line in lines] == [
        "plain",
        r"two\x0alines",
        r"\xff\xfe",
        "schön",
        r"back\x5cslash",
        r"\x1b[2J",
        r"\xe2\x80\xaeevil",
        r"\x7f\xc2\x9b",
        "",
    ]
    raw = run_leat("ls", "-s", "-0", ds, status=0, text=False).stdout
    assert raw == b"".join(key + b"\0" for key in KEYS)
    found = [json.loads(line) for line in run_leat("ls", "-s", "--json", ds, status=0).stdout.splitlines()]
    assert [line.get("key", bytes.fromhex(line.get("key_hex", ""))) for line in found[:3]] == [
        "plain",
        "two\nlines",
        b"\xff\xfe",
    ]
    assert found[0]["fields"] == {"cls": 7, "data": {"size": 2}}
    assert run_leat("ls", "-s", "-t", ds, status=0).stdout == "9 samples\n"
    assert r"two\x0alines" in shown(run_leat, ds, 1).splitlines()[0]
    run_leat("select", ds, "--numbers", "1:3", "--name", "odd", status=0)
    assert run_leat("ls", "-s", "-0", f"{ds}?name=odd", status=0, text=False).stdout == b"two\nlines\0\xff\xfe\0"
    assert "cannot be combined with" in run_leat("ls", "-0", "--json", ds, status=2).stderr


def test_objects_are_listed_with_nul(tmp_path, run_leat):
    (tmp_path / "f").mkdir()
    for name in ("a", "b\nc"):
        (tmp_path / "f" / name).write_text("x")
    out = run_leat("ls", "-0", tmp_path / "f", status=0).stdout
    assert [path.split("/")[-1] for path in out.split("\0")] == ["a", "b\nc", ""]


def test_arrays_are_written_for_numpy(ds, run_leat):
    for n in (0, 5):
        data = run_leat("cat", "-n", n, "--field", "emb", "--npy", ds, status=0, text=False).stdout
        found = np.load(io.BytesIO(data))
        assert found.dtype == np.float32
        assert (found == np.arange(3 * (n + 1), dtype=np.float32).reshape(3, n + 1) / 2).all()
        bare = run_leat("cat", "-n", n, "--field", "emb", ds, status=0, text=False).stdout
        assert bare == found.tobytes()
        tokens = run_leat("cat", "-n", n, "--field", "tok", "--npy", ds, status=0, text=False).stdout
        assert (np.load(io.BytesIO(tokens)) == np.arange(n * 30, dtype=np.uint16)).all()
    assert np.load(
        io.BytesIO(run_leat("cat", "-n", 1, "--field", "half", "--npy", ds, status=0, text=False).stdout)
    ).shape == (2,)
    assert run_leat("cat", "-n", 3, "--field", "w", ds, status=0).stdout == "0.375\n"
    assert json.loads(run_leat("cat", "-n", 3, "--field", "meta", ds, status=0).stdout)["n"] == 3
    assert "neither an array nor tokens" in run_leat("cat", "-n", 3, "--field", "w", "--npy", ds, status=2).stderr


def test_conditions_on_every_kind_of_field(ds, run_leat):
    def chosen(where):
        run_leat("select", ds, "--where", where, "--name", "some", "--replace", status=0)
        out = run_leat("ls", "-s", f"{ds}?name=some", status=0).stdout
        return [int(line.split("/")[1]) for line in out.splitlines()]

    assert chosen("w >= 0.5 and w < 0.9") == [4, 5, 6, 7]
    assert chosen("w == 0.375") == [3]
    assert chosen("opt != none and opt > -5") == [1, 2, 4]
    assert chosen("emb.size == 36") == [2]
    assert chosen("tok.size > 500 or png.width == 61") == [1, 9, 10, 11]
    assert chosen("text < 'line\n2'") == [0, 1, 10, 11]
    assert chosen("emb != none and cls == 'dog'") == [1, 3, 5, 7, 9, 11]
    says = run_leat("select", ds, "--where", "emb == 'x'", "--name", "x", status=2).stderr
    assert "can only be compared with none" in says


def test_a_picture_of_an_index_is_described_by_its_own_header(tmp_path, run_leat):
    (tmp_path / "files").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "files/a.png")
    (tmp_path / "files/b.png").write_bytes(b"no picture")
    run_leat("index", tmp_path / "files", tmp_path / "ds", status=0)
    assert "PNG 40x30, 3 channels" in run_leat("show", "--key", "a.png", tmp_path / "ds", status=0).stdout
    assert "no readable header" in run_leat("show", "--key", "b.png", tmp_path / "ds", status=0).stdout
