"""Injected stalls are attributed: a few in every run of the tests, all fifty where there is time for it."""

import pytest
from profile_cases import base_of, cases, judge, run

pytest.importorskip("torch")
pytestmark = pytest.mark.alone


def test_there_are_fifty_cases():
    assert len(cases()) == 50


@pytest.mark.parametrize("number", [12, 31, 47])  # a late rank; a transform and a slow link; workers that wait
def test_a_stall_comes_first_and_is_measured(leat_bin, tmp_path, number):
    case, ranks = cases()[number]
    found = run(leat_bin, case, ranks, tmp_path, steps=40)
    _, right = judge(case, found, dict.fromkeys(found[0], 0.0))
    assert right, (case, found)  # how exactly is for a quiet machine: below


@pytest.mark.long
def test_fifty_cases_are_attributed_within_a_point(leat_bin, tmp_path):
    base = {ranks: base_of(run(leat_bin, {}, ranks, tmp_path)) for ranks in (1, 2)}
    rows = [(case, *judge(case, run(leat_bin, case, ranks, tmp_path), base[ranks])) for case, ranks in cases()]
    assert sum(right for _, _, right in rows) >= 48, rows
    assert sum(off <= 1 for _, off, _ in rows) >= 48, rows
