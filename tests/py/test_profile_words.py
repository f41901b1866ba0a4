"""What `leat profile` says aloud must not contradict itself, nor promise what nobody knows."""

import json
import re

import pytest
from test_whatif import RUN, report_of


@pytest.fixture
def show(run_leat, tmp_path):
    """show(workers=2) -> what is said of a report with such a run."""

    def say(stalls=(), **changes):
        (tmp_path / "r.json").write_text(json.dumps(report_of({**RUN, **changes}, stalls=stalls)))
        return run_leat("profile", "show", tmp_path / "r.json", status=0).stdout

    return say


PARTS = {**RUN["parts_s"], "fetch": 0.06}
SERIAL = {"workers": 0, "fetch_s": 0.06, "prepare_s": 0.001, "parts_s": PARTS}


def test_the_advice_and_the_promise_have_the_same_number_of_workers(show):
    said = show(**SERIAL)
    assert re.search(r"num_workers=(\d+) would", said).group(1) == re.search(r"with (\d+) workers? of", said).group(1)


@pytest.mark.parametrize("high", [0.03, None])
def test_a_difference_that_has_no_interval_says_so(show, high):
    said = show(stalls=[{"cause": "data", "s": [0.02, high and 0.01, high], "share": 0.2, "from": [0, 0]}])
    assert ("too few blocks for an interval" in said) == (high is None), said


def test_what_may_as_well_be_slower_is_not_promised(show):
    assert "times as fast" in show(**SERIAL)
    assert "times as fast" not in show(**SERIAL, step_s=[0.1, 0.001, 0.3])


def test_workers_that_should_keep_up_and_do_not_are_explained(show):
    assert "they would keep up if" in show(workers=8, fetch_s=0.2, prepare_s=0.05)
    assert "they would keep up if" not in show(workers=2, fetch_s=0.2, prepare_s=0.05)


def test_a_loader_whose_fetches_are_known_is_not_said_to_be_silent(show):
    parts = {**RUN["parts_s"], "fetch": 0.0, "input": 0.06}
    assert "longer than its fetches" in show(workers=0, fetch_s=0.001, prepare_s=0.001, parts_s=parts)
    assert "does not say whether it fetches or prepares" in show(
        workers=0, fetch_s=None, prepare_s=None, prepare_cpu_s=None, parts_s=parts
    )


def test_a_script_whose_loader_is_not_seen_is_not_said_to_wait_for_nothing(show):
    """Its waiting is within 'forward': nobody knows how much it is."""
    parts = {**dict.fromkeys(RUN["parts_s"], 0.0), "forward": 0.08, "backward": 0.02}
    known = {"workers": 0, "fetch_s": 0, "prepare_s": 0, "prepare_cpu_s": None, "parts_s": parts}
    said = show(**known, batch=0)
    assert said.startswith("copies and communication do not hold this training up; whether data do is not known")
    assert "leat.watch()" in said
    assert show(**known).startswith("nothing holds this training up: it computes for 100.0 % of the step")


def test_steps_that_do_not_count_are_not_said_to_be_missing(profile):
    code = """
import torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.ones(24, 4), batch_size=2):
    net(x).sum().backward()
    optimizer.step()
"""
    pytest.importorskip("torch")
    done, _ = profile(program=["-c", code])
    assert "leat: not enough data: 10 of 12 training steps count, 20 are needed" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--time", "5s", "show", "r.json"], "--time: while a script is profiled"),
        (["--watch", "diff", "r.json", "r.json"], "--watch: while a script is profiled"),
        (["-o", "other.json", "show", "r.json"], "--out: while a script is profiled"),
        (["--precision", "5", "--", "true"], "--precision: only with --time"),
        (["--every", "1s", "--", "true"], "--every: only with --watch or --metrics"),
    ],
)
def test_options_that_would_change_nothing_are_refused(run_leat, words, says):
    done = run_leat("profile", *words, status=2)
    assert says in done.stderr
    assert done.stdout == ""


def test_one_is_one_worker(show):
    assert ": 1 worker of each rank would keep up" in show(
        workers=0, fetch_s=0.001, prepare_s=0.03, parts_s={**RUN["parts_s"], "fetch": 0.0, "prepare": 0.05}
    )
    assert "more than 1 worker wait" in show(workers=1, parts_s=PARTS)


def test_a_script_without_steps_is_told_what_a_step_is(profile):
    done, _ = profile(program=["-c", "pass"], fresh=True)
    assert "0 training steps were seen, 20 are needed (a step goes from one batch to the next" in done.stderr
