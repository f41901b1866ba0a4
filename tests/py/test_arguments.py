"""Arguments of the package: every setting can be said, what cannot be taken is an error of both kinds, a typo is guessed."""

import pickle
import re
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")

# Every setting of the agent and of a pipeline can be reached.

OWN = {"socket", "protocol", "ready-fd", "json", "help"}  # for those who start an agent by hand


def test_every_setting_of_the_agent_can_be_said_in_python(leat, run_leat):
    text = run_leat("agent", "--help", status=0).stdout
    of_run = set(re.findall(r"^\s+--([a-z-]+)[^\n]* run:", text, re.M)) | {"scope"}
    assert {"ram", "threads", "cache-dir", "cache", "linger"} <= of_run
    settings = set(leat.loader._SETTINGS) - leat.loader._HIDDEN
    missing = sorted(name for name in of_run - OWN if name.replace("-", "_") not in settings)
    assert not missing, f"leat agent run takes {missing}, and leat.Loader does not"


def test_every_setting_of_the_library_can_be_said_in_python(leat):
    import inspect

    said = set(inspect.signature(leat.Loader).parameters)
    assert set(leat.loader._SETTINGS) - said == {
        "local_world_size",
        "members",
        "mix",
    }  # found out: ranks.py, job.py; and leat.Mix


def reachable(kind, name, choices):
    """The words that methods of an output write which make `name` of a pipeline one of the choices."""
    other = {"colour": ("gray", "rgba", "index"), "mode": ("fast",), "mean": ("normalize",), "std": ("normalize",)}
    if name in other:
        made = " ".join(
            getattr(kind, m)(*((0.5, 0.5) if m == "normalize" else ()))._pipeline
            for m in other[name]
            if hasattr(kind, m)
        )
    elif name == "background":
        made = kind.alpha("blend", 3)._pipeline
    elif not hasattr(kind, name):
        return set()
    else:
        made = " ".join(getattr(kind, name)(numpy.int64(c) if c.isdigit() else c)._pipeline for c in choices or ["1"])
    return set(re.findall(rf"(?:^| ){name}=(\S+)", made))


@pytest.mark.parametrize("option", ["--words", "--sound-words"])
def test_every_word_of_a_pipeline_and_each_of_its_choices_can_be_said(leat, run_leat, option):
    output = leat.image("jpg") if option == "--words" else leat.sound("wav")
    seen = 0
    for line in run_leat("image", option, status=0).stdout.splitlines()[1:]:
        word, default, values, _ = re.split(r"\s{2,}", line.strip(), maxsplit=3)
        name, _, form = word.partition("=")
        if line.startswith("  "):
            continue  # parameters of methods: test_words.py
        if not (hasattr(output, name) and form != "NAME"):
            choices = values.split(", ") if form == "NAME" else []
            got = reachable(output, name, [c for c in choices if c != default] or choices)
            missing = {c for c in choices if c != default} - got
            assert got and not missing, f"{name}: {missing or 'it'} cannot be said in Python"
        seen += 1
    assert seen >= 5


# What is wrong is a ValueError or TypeError, and a leat.Error.

WRONG_TYPES = {
    "url": lambda lt, url: lt.Loader(3, fields={"i": lt.index()}, batch_size=2),
    "batch_size": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2.5),
    "shuffle": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, shuffle="yes"),
    "seed": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, seed="1"),
    "ram": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, ram=[1]),
    "region": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, region=3),
    "as_dict": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, as_dict="no"),
    "bach_size": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, bach_size=2),
    "fields": lambda lt, url: lt.Loader(url, fields=["i"], batch_size=2),
    "outputs": lambda lt, url: lt.Loader(url, fields={"i": "index"}, batch_size=2),
    "image": lambda lt, url: lt.image(3),
    "resize": lambda lt, url: lt.image("a").resize("224"),
    "flip": lambda lt, url: lt.image("a").flip("often"),
    "normalize": lambda lt, url: lt.image("a").normalize(None, 1),
    "layout": lambda lt, url: lt.image("a").layout(3),
    "dtype": lambda lt, url: lt.int("a", dtype=3),
    "view": lambda lt, url: lt.image("a", view="0"),
    "default": lambda lt, url: lt.bytes("a", default="text"),
    "string": lambda lt, url: lt.string("a", default=3),
    "json": lambda lt, url: lt.json("a", default={1, 2}),
    "pad": lambda lt, url: lt.array("a").pad("4"),
    "blocks": lambda lt, url: lt.blocks("2048"),
    "mix": lambda lt, url: lt.Mix({"a": 1.0}, {"a": 3}),
    "weight": lambda lt, url: lt.Mix({"a": "1"}, {"a": "x"}),
    "batch_mix": lambda lt, url: lt.BatchMix("10"),
    "open": lambda lt, url: lt.open(3),
    "open fields": lambda lt, url: lt.open(url, fields="jpg"),
    "open cache": lambda lt, url: lt.open(url, cache=1.5),
    "open anonymous": lambda lt, url: lt.open(url, anonymous=1),
    "sample": lambda lt, url: lt.open(url)[1.5],
    "find": lambda lt, url: lt.open(url).find(3),
    "writer": lambda lt, url: lt.Writer(3, {"a": "int"}),
    "writer fields": lambda lt, url: lt.Writer("x", ["a"]),
    "spec": lambda lt, url: lt.Writer("x", {"a": 3}),
    "array": lambda lt, url: lt.Array("float32", [2.5]),
    "label": lambda lt, url: lt.Label("cat"),
    "plan": lambda lt, url: lt.plan({"a": object()}, catalog=[]),
}
WRONG_VALUES = {
    "batch_size": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=0),
    "ram": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, ram="1xb"),
    "timeout": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, timeout=float("inf")),
    "last": lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, last="dorp"),
    "field": lambda lt, url: lt.Loader(url, fields={"x": lt.bytes("nothing")}, batch_size=2),
    "NUL": lambda lt, url: lt.image("a\0b"),
    "resize": lambda lt, url: lt.image("a").resize((1, 2, 3)),
    "filter": lambda lt, url: lt.image("a").filter("bilinear flip=1"),
    "background": lambda lt, url: lt.image("a").alpha("drop", 3),
    "view": lambda lt, url: lt.image("a", view=256),
    "blocks": lambda lt, url: lt.blocks(0),
    "mix": lambda lt, url: lt.Mix({"a": 0.5}, {"a": "x"}),
    "batch_mix": lambda lt, url: lt.BatchMix(10, layout="chw"),
    "open timeout": lambda lt, url: lt.open(url, timeout=-1),
    "open fields": lambda lt, url: lt.open(url, fields=["nothing"]),
    "array": lambda lt, url: lt.Array("float33", [2]),
    "label": lambda lt, url: lt.Label(["a", "a"]),
    "part": lambda lt, url: lt.Writer("x", {"a": "int"}, part=(3, 2)),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_a_wrong_type_is_a_type_error_and_an_error_of_leat(lt, blobs, case):
    with pytest.raises(lt.Error) as error:
        WRONG_TYPES[case](lt, blobs.url)
    assert isinstance(error.value, TypeError) and isinstance(error.value, ValueError)
    assert isinstance(error.value, lt.errors.InvalidError)


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_a_wrong_value_is_a_value_error_and_an_error_of_leat(lt, blobs, case):
    with pytest.raises(lt.Error) as error:
        WRONG_VALUES[case](lt, blobs.url)
    assert isinstance(error.value, ValueError) and not isinstance(error.value, TypeError)


def test_other_errors_are_pythons_own_as_well(lt, blobs, tmp_path):
    ds = lt.open(blobs.url)
    with pytest.raises(KeyError, match="nothing"):
        ds["nothing"]
    with pytest.raises(IndexError):
        ds[10**9]
    with pytest.raises(FileNotFoundError):
        lt.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        lt.plan(tmp_path / "nothing.toml", catalog=[])
    for call in (lambda: ds["nothing"], lambda: ds[10**9]):
        with pytest.raises(lt.errors.NotFoundError) as error:
            call()
        assert "\n" not in str(error.value) and not str(error.value).startswith(("'", '"'))
        assert type(pickle.loads(pickle.dumps(error.value))) is type(error.value)
    ds.close()
    with pytest.raises(lt.errors.InvalidError, match="closed"):
        len(ds)
    loader = lt.Loader(blobs.url, fields={"i": lt.index()}, batch_size=2, as_numpy=True)
    loader.close()
    with pytest.raises(lt.errors.InvalidError, match="closed"):
        loader.state_dict()


def test_every_status_of_the_library_has_its_kind_of_error(leat):
    header = (Path(__file__).resolve().parents[2] / "include" / "leat" / "error.h").read_text()
    names = re.findall(r"^    LEAT_(\w+)", header.partition("enum leat_status_code {")[2].partition("};")[0], re.M)
    plain = [name for i, name in enumerate(names) if type(leat.errors.make(i, "")) is leat.Error]
    assert plain == ["OK", "INTERNAL"]


# A typo suggests the right one.


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, bach_size=2), "'batch_size'"),
        (lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, as_nunpy=True), "'as_numpy'"),
        (lambda lt, url: lt.Loader(url, fields={"x": lt.bytes("bni")}, batch_size=2), "'bin'"),
        (lambda lt, url: lt.open(url, fields=["bni"]), "'bin'"),
        (lambda lt, url: lt.Loader(url, fields={"i": lt.index()}, batch_size=2, view="bolcks=3"), "'blocks'"),
        (lambda lt, url: lt.image("jpg").resise(3), "'resize'"),
        (lambda lt, url: lt.sound("jpg").exerpt(3), "'excerpt'"),
        (lambda lt, url: lt.tokens("t").padd(3), "'pad'"),
        (lambda lt, url: lt.imgae("jpg"), "'image'"),
        (lambda lt, url: lt.Laoder(url), "'Loader'"),
        (lambda lt, url: lt.Mix({"wbe": 1.0}, {"web": url}), "'web'"),
    ],
)
def test_a_typo_suggests_what_was_meant(lt, blobs, wrong, right):
    with pytest.raises((lt.Error, AttributeError), match=f"did you mean {right}"):
        wrong(lt, blobs.url)


def test_a_typo_in_a_pipelines_text_and_in_a_sample_suggests_the_right_one(leat, tmp_path):
    with pytest.raises(leat.Error, match="did you mean 'resize'"):
        leat.dataset.Picture(b"", 0, 0).decode("resise=3")
    writer = leat.Writer(tmp_path / "ds", {"label": "int"})
    with pytest.raises(leat.Error, match="there is no field 'lable': did you mean 'label'"):
        writer.write({"label": 1, "lable": 1})
    writer.close()


def test_what_is_like_nothing_is_not_guessed(leat):
    with pytest.raises(AttributeError) as error:
        leat.image("jpg").qqq  # noqa: B018
    assert "did you mean" not in str(error.value)
    assert not hasattr(leat, "__wrapped__") and not hasattr(leat.image("jpg"), "__array__")


# Numbers, paths and dtypes of others are taken.


def test_numbers_of_numpy_are_taken(leat):
    one = (
        leat.image("jpg").random_resized_crop(numpy.int64(224), scale=numpy.array([0.25, 1.0])).flip(numpy.float32(0.5))
    )
    other = leat.image("jpg").random_resized_crop(224, scale=(0.25, 1.0)).flip(0.5)
    assert one._pipeline == other._pipeline
    one = (
        leat.image("jpg")
        .resize(numpy.array([3, 4]))
        .rotate(numpy.float64(30))
        .normalize(numpy.float32(0.5), [0.25] * 3)
    )
    assert one._pipeline == leat.image("jpg").resize((3, 4)).rotate(30).normalize(0.5, (0.25,) * 3)._pipeline
    assert leat.array("a").pad(numpy.int32(4), cut=numpy.bool_(True))._pipeline == "pad=4 value=0 cut"
    assert leat.int("a", default=numpy.int8(-1))._pipeline == "dtype=int64 default=-1"
    assert str(leat.blocks(numpy.int64(8))) == "blocks=8 shift=1"
    assert leat.Array("float32", numpy.array([3, 4])).about["shape"] == [3, 4]
    assert leat.BatchMix(numpy.int64(10), mixup=numpy.float32(0.5)).draw(numpy.int64(0), numpy.int64(1), 8, 8)


def test_dtypes_of_numpy_and_torch_are_taken(leat):
    for dtype in (numpy.float16, numpy.dtype("float16"), "float16"):
        assert leat.image("jpg").dtype(dtype)._pipeline == "dtype=float16"
    assert leat.float("x", dtype=float)._pipeline == "dtype=float64"
    assert leat.int("x", dtype=int)._pipeline == "dtype=int64"
    torch = pytest.importorskip("torch")
    assert leat.image("jpg").dtype(torch.bfloat16)._pipeline == "dtype=bfloat16"
    assert leat.sound("wav").dtype(torch.half)._pipeline == "dtype=float16"
    assert leat.tokens("t", dtype=torch.long)._pipeline == "dtype=int64"
    assert leat.Tokens(torch.int32).about == {"dtype": "int32"}
    size = torch.zeros(3, 5).shape
    assert leat.image("jpg").center_crop(size)._pipeline == "center_crop=5x3"
    assert leat.array("a").pad(size)._pipeline == "pad=3x5 value=0"
    assert leat.image("jpg").fill(torch.tensor([1, 2, 3]))._pipeline == "fill=1.0:2.0:3.0"
    assert leat.image("jpg").flip(torch.tensor(0.5))._pipeline == "flip=0.5"


def test_paths_and_numbers_of_numpy_are_settings(lt, blobs, tmp_path):
    settings = {
        "batch_size": numpy.int64(2),
        "seed": numpy.uint32(3),
        "ram": numpy.int64(64 << 20),
        "timeout": numpy.float32(30),
        "shuffle": numpy.bool_(False),
        "cache_dir": tmp_path / "cache",
        "cache": "64mib",
        "as_numpy": True,
    }
    with lt.Loader(Path(blobs.url), fields={"i": lt.index()}, **settings) as loader:
        (first,) = next(iter(loader))
        assert first.tolist() == [0, 1]
        loader.seek(numpy.int64(1), numpy.int64(2))
        assert loader.epoch == 1
    assert (tmp_path / "cache").is_dir()
    with lt.open(Path(blobs.url), timeout=numpy.float64(5), cache=numpy.int64(1 << 20)) as ds:
        assert ds[numpy.int64(0)].number == 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"batch_size": "4x"}, "batch_size='4x' is not a whole number from 1 to 16777216"),
        ({"batch_sise": 4}, "there is no setting 'batch_sise': did you mean 'batch_size'?"),
        ({"batch_size": 4, "timeout": 0}, "timeout='0ns' is too little: it must be greater than 0"),
        ({"batch_size": 4, "ram": "0"}, "ram='0' is too little: it must be greater than 0"),
        ({}, "give exactly one of batch_size and global_batch_size"),
    ],
    ids=["value", "name", "time", "size", "missing"],
)
def test_what_is_wrong_is_said_once_and_in_the_users_units(leat, images, given, text):
    with pytest.raises(leat.errors.InvalidError) as caught:
        leat.Loader(images.url, fields={"i": leat.index()}, **given)
    assert str(caught.value) == text


@pytest.mark.parametrize("none", [0, 0.0, "0s", "0"])
def test_an_agent_may_be_told_not_to_linger(leat, images, none):
    with leat.Loader(images.url, fields={"i": leat.index()}, batch_size=4, linger=none, scope="no-linger"):
        pass
