"""`leat profile` around trainings in frameworks: as many steps as they make, parts that add up, and the same result bit for bit, also
where blocks of replayed steps lie between their own."""

import re
from pathlib import Path

import pytest
from loading import free_port
from profiling import parts, unprofiled

pytestmark = pytest.mark.python_only

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("profile_frameworks.py")
AHEAD = "the script takes batches ahead of the steps that they are for"
ROW = "training steps in a row, and there were"


@pytest.mark.parametrize(
    ("kind", "batch", "said"),
    [
        # Blocks are made, or a note says why not.
        ("one_by_one", 2, None),
        pytest.param("together", 6, ROW, marks=pytest.mark.long),
        ("ahead", 2, AHEAD),
        pytest.param("validating", 2, ROW, marks=pytest.mark.long),
        ("accelerate", 2, None),
        pytest.param("trainer", 6, "transformers.Trainer counts its batches itself", marks=pytest.mark.long),
        pytest.param("lightning", 2, "Lightning counts its batches itself", marks=pytest.mark.long),
        pytest.param("spawn", 2, None, marks=pytest.mark.long),
        pytest.param("fsdp", 2, None, marks=pytest.mark.long),
    ],
)
def test_a_framework_trains_as_without_us_and_its_steps_are_counted(profile, tmp_path, kind, batch, said):
    more = {"spawn": [free_port()], "trainer": [tmp_path / "out"]}.get(kind, [])
    start = {"program": [SCRIPT, kind, *more], "ranks": 2 if kind == "fsdp" else 1}
    plain = unprofiled(**start)
    lines = [line for line in plain.stdout.splitlines() if line.startswith("[")]
    own = int(re.search(r"^steps (\d+)$", plain.stderr, flags=re.M).group(1))
    assert len(lines) == 1

    done, report = profile(**start)
    assert lines[0] in done.stdout.splitlines()
    assert {rank["steps"] for rank in report["ranks"]} == {own}
    assert report["runs"][0]["batch"] == pytest.approx(batch, rel=0.05)
    assert report["runs"][0]["gpus"] == (2 if kind in ("spawn", "fsdp") else 1)
    parts(report)  # they add up

    done, report = profile(None, "--time", "20s", **start)
    assert lines[0] in done.stdout.splitlines()
    assert report["runs"][0]["steps"] > 0
    if said:
        assert f"no differential runs: {said}" in done.stderr or said in done.stderr
        assert len(report["runs"]) == 1
    else:
        assert {"observed", "synthetic"} <= {run["mode"] for run in report["runs"]}


@pytest.mark.parametrize("kind", ["fsdp", pytest.param("fsdp1", marks=pytest.mark.long)])
def test_what_fsdp_exchanges_is_known(profile, kind):
    """Linear(16, 8) and Linear(8, 3) of floats: 544 and 108 bytes, which are padded for two ranks."""
    done, report = profile(program=[SCRIPT, kind], ranks=2)
    run = report["runs"][0]
    sizes = [144, 544] if kind == "fsdp" else [656]
    assert (sorted(run["bucket_bytes"]), run["buckets"], run["gradient_bytes"]) == (sizes, len(sizes), sum(sizes))
    assert parts(report)["communication"] > 0
    assert ("it gathers parameters too" in done.stderr) == (kind == "fsdp")
