"""A training that `leat profile --time` follows comes to the same as one that nobody follows, whatever it keeps beside its model: weights
of no module, averages of weights, copies and files of them that it makes in the middle of a block."""

import json
from pathlib import Path

import pytest
from profiling import unprofiled

pytestmark = pytest.mark.python_only

torch = pytest.importorskip("torch")

STATE = Path(__file__).with_name("profile_state.py")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """plain(ranks) -> what the script says by itself, with the weights of all its steps."""
    found = {}

    def run(ranks):
        if ranks not in found:
            path = tmp_path_factory.mktemp("plain") / "weights"
            found[ranks] = json.loads(unprofiled([STATE, "plain", path], ranks).stdout)
        return found[ranks]

    return run


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("copy", 1),
        ("deep", 2),
        *(pytest.param(kind, ranks, marks=pytest.mark.long) for kind in ("save", "deep") for ranks in (1, 2)),
    ],
)
def test_what_a_script_keeps_is_what_it_would_have_kept(profile, plain, tmp_path, kind, ranks):
    done, report = profile(None, "--time", "1min", program=[STATE, kind, tmp_path / "weights"], ranks=ranks)
    said, alone = json.loads(done.stdout), plain(ranks)
    assert {run["mode"] for run in report["runs"]} >= {"observed", "synthetic", "cached"}
    for name in ("weights", "average", "seen"):
        assert said[name] == alone[name], name
    assert len(said["kept"]) > 150 // 7  # within blocks, too
    assert {step: digest for step, digest in said["kept"].items() if alone["kept"][step] != digest} == {}


def test_generators_that_a_script_made_go_on_from_where_they_were(profile, tmp_path):
    program = [STATE, "generators", tmp_path / "weights"]
    done, report = profile(None, "--time", "1min", program=program)
    assert {run["mode"] for run in report["runs"]} >= {"observed", "synthetic", "cached"}
    assert json.loads(done.stdout) == json.loads(unprofiled(program).stdout)


def test_a_forked_process_keeps_what_it_has(profile, plain, tmp_path):
    """It has the parent's block too, but is not in it: with a GPU, putting anything back there would end it."""
    done, report = profile(None, "--time", "1min", program=[STATE, "fork", tmp_path / "weights"])
    assert "synthetic" in {run["mode"] for run in report["runs"]}
    said = json.loads(done.stdout)
    assert said["read"] == 0
    assert said["weights"] == plain(1)["weights"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("looks", "differential runs ended early: the script takes weights out of the training in most of its steps"),
        (
            "cache",
            "differential runs ended early: the script's steps write into more memory of their own than can be kept",
        ),
        ("frozen", "differential runs ended early: the script has called gc.freeze()"),
        ("thread", "differential runs ended early: another thread draws random numbers from a generator of its own"),
        ("rates", "the script sets its learning rates by a count of its own"),
    ],
)
def test_what_cannot_be_put_back_is_said(profile, plain, tmp_path, kind, words):
    done, report = profile(None, "--time", "1min", program=[STATE, kind, tmp_path / "weights"])
    assert sum(words in note for note in report["notes"]) == 1
    said = json.loads(done.stdout)
    if kind != "rates":
        assert {run["mode"] for run in report["runs"]} == {"observed"}
        assert said["weights"] == plain(1)["weights"]
    else:
        assert said["read"] > 150
