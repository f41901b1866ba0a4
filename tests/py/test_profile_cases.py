"""Fifty injected stalls are attributed, where there is time for it. test_profile.py has one of each kind."""

import pytest
from profile_cases import cases, judge, run

pytestmark = pytest.mark.python_only


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_cases_are_attributed_within_a_point(leat_bin, tmp_path):
    pytest.importorskip("torch")
    rows = [(case, *judge(case, run(leat_bin, case, ranks, tmp_path))) for case, ranks in cases()]
    assert len(rows) == 50
    assert sum(right for _, _, right in rows) >= 48, rows
    assert sum(max(abs(points) for points in off.values()) <= 1 for _, off, _ in rows) >= 48, rows
