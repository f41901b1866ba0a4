"""What `leat plan` says of jobs that are unlike everything that was measured: how unsure it is, and that it does not know."""

import json
import re

import pytest
from test_plan import edit, example  # noqa: F401


def test_a_fit_knows_how_far_a_question_is_from_its_rows(run_leat, example):  # noqa: F811
    """Fits to the smaller ones of the published models, asked about the larger ones."""
    header, *lines = (line for line in (example / "models.csv").read_text().splitlines() if line[0] != "#")
    columns = header.split(",")
    rows = sorted(
        (dict(zip(columns, line.split(","), strict=True)) for line in lines), key=lambda r: float(r["flops_per_step"])
    )
    rows = [row for row in rows if row["accelerator"] == "K80"]
    held = answered = refused = 0
    for known in range(6, len(rows)):
        for name, part in (("small.csv", rows[:known]), ("large.csv", rows[known:])):
            times = ("step_s", "checkpoint_s") if name == "large.csv" else ()
            text = "\n".join(",".join("" if c in times else row[c] for c in columns) for row in part)
            (example / name).write_text(f"{header}\n{text}\n")
        words = ["plan", "fit", example / "small.csv", "--predict", example / "large.csv", "--json"]
        for said in json.loads(run_leat(*words, status=0).stdout)["predictions"]:
            column = "flops_per_step" if said["target"] == "step" else "checkpoint_bytes"
            times = ("step_s", "checkpoint_s")[said["target"] != "step"]
            row = next(row for row in rows if row["model"] == said["model"])
            if float(row[column]) > 8 * max(float(r[column]) for r in rows[:known]):
                assert said["mean_s"] is None, said
                assert "times beyond what was measured" in said["why_not"]
                refused += 1
            else:
                answered += 1
                held += said["lo_s"] <= float(row[times]) <= said["hi_s"]
    assert refused > 5, (held, answered)
    assert held >= 0.9 * answered > 70, (held, answered)


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ("models.csv", "the step time of K80: flops_per_step .* times beyond what was measured"),
        ("batches.csv", "K80 was measured at batches of 16 to 32, and the job's 512 is too far from them"),
        ("falling.csv", "K80 was measured at batches of 128 to 130, and the job's 512 is too far from them"),
    ],
)
def test_speeds_far_from_what_was_measured_are_not_made_up(run_leat, example, speeds, words):  # noqa: F811
    (example / "batches.csv").write_text("accelerator,batch,step_s\nK80,16,0.02\nK80,32,0.03\n")
    (example / "falling.csv").write_text("accelerator,batch,step_s\nK80,128,0.100\nK80,130,0.099\n")
    edit(example / "job.toml", "batch = 256", "batch = 512")
    edit(example / "job.toml", 'name = "resnet50"', 'name = ""')
    edit(example / "job.toml", "tensors = 161", "flops = 1e9\nparameters = 1e6\ntensors = 60")
    done = run_leat(
        "plan", "-j", example / "job.toml", "-c", example / "catalog.csv", "-m", example / speeds, status=None
    )
    assert re.search(words, done.stdout + done.stderr)
