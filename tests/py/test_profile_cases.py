"""Injected stalls are attributed: a few in every run of the tests, all fifty where there is time for it."""

import pytest
from conftest import SANITIZE
from profile_cases import cases, judge, run

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(bool(SANITIZE), reason="times are compared; test_profile.py has what is ours"),
]


def test_there_are_fifty_cases():
    assert len(cases()) == 50


@pytest.mark.parametrize("number", [14, 31, 47])  # a late rank; a transform and a slow link; workers that wait
def test_a_stall_comes_first_and_is_measured(leat_bin, tmp_path, number):
    """Held against the script's own account of the same run, so that what a busy machine adds is in both."""
    case, ranks = cases()[number]
    found = run(leat_bin, case, ranks, tmp_path, steps=40)
    off, right = judge(case, found)
    assert right, (case, found)
    assert max(abs(points) for points in off.values()) < 5, (
        case,
        off,
        found,
    )  # how exactly is for a quiet machine: below


@pytest.mark.long
def test_fifty_cases_are_attributed_within_a_point(leat_bin, tmp_path):
    rows = [(case, *judge(case, run(leat_bin, case, ranks, tmp_path))) for case, ranks in cases()]
    assert sum(right for _, _, right in rows) >= 48, rows
    assert sum(max(abs(points) for points in off.values()) <= 1 for _, off, _ in rows) >= 48, rows
