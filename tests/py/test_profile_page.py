"""Reports for people: the page, the trace and the comparison of two reports."""

import copy
import json
import re
import subprocess
from html.parser import HTMLParser

import pytest
from loading import SLOW, warm_python
from profiling import TRAIN

pytest.importorskip("torch")

HOSTILE = "</title><script>alert(1)</script> & \"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def made(leat_bin, tmp_path_factory):
    """A report with its page and trace, of a script and a model with bad names."""
    folder = tmp_path_factory.mktemp("page")
    files = ["-o", folder / "r.json", "--html", folder / "r.html", "--trace", folder / "r.trace"]
    # Workers that are far slower than the training: else, on a busy machine, they are ahead of it all the time, there is not enough
    # data for a verdict, and no report is written.
    wish = json.dumps({"read": 0.03, "transform": 0.001, "workers": 2, "steps": 60})
    command = [leat_bin, "profile", *files, "--model", HOSTILE[:60], "--", *warm_python(TRAIN, wish, HOSTILE)]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == 0, done.stderr
    assert (folder / "r.html").exists(), done.stderr
    return folder, done.stderr


class Page(HTMLParser):
    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.values = [], {}, [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.values += [(name, value) for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.values += [(name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_alone_and_escapes_what_the_script_says(made):
    folder, _ = made
    text = (folder / "r.html").read_text()
    page = Page(text)
    assert page.open == []  # every tag is closed
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?:|url\(|@import", text.split("</style>")[0])
    assert not [name for name, _ in page.values if name.startswith("on") or name in ("href", "src")]
    said = "".join(page.words)
    assert HOSTILE in said  # as text
    parts = ["Where a step goes", "Stalls", "Steps of each rank", "What if", "Evidence", "rank 0", "its workers"]
    assert [part for part in (*parts, "why: a batch") if part not in said] == []
    assert len(text) < 1 << 20
    assert "NaN" not in text
    assert " nan" not in text.lower()


def test_the_terminal_says_verdict_why_what_to_do_and_evidence_in_that_order(made, run_leat):
    folder, said = made
    at = [said.index(word) for word in ("leat: ", "  why: ", "  what to do: ", "  run 0, observed")]
    assert at == sorted(at)
    shown = run_leat("profile", "show", folder / "r.json", status=0).stdout
    assert said.split("leat: ", 1)[1].startswith(shown.rstrip("\n"))


def test_the_trace_has_the_form_that_perfetto_reads(made):
    folder, _ = made
    trace = json.loads((folder / "r.trace").read_text())
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert names[0, 0] == "steps"
    assert any(name.startswith("worker ") for name in names.values())
    slices = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] > 0 and e["ts"] >= -1 and isinstance(e["name"], str) for e in slices)
    assert {e["ph"] for e in events} == {"M", "X"}
    steps = [e for e in slices if e["name"] == "step"]
    assert len(steps) > 20
    # Slices of a thread lie within each other or beside each other.
    for step in steps:
        begin, end = step["ts"] - 0.01, step["ts"] + step["dur"] + 0.02
        row = [e for e in slices if e["tid"] == 0 and e["pid"] == step["pid"] and e["name"] != "step"]
        inner = [e["dur"] for e in row if begin <= e["ts"] and e["ts"] + e["dur"] <= end]
        assert sum(inner) == pytest.approx(step["dur"], rel=1e-3)


@pytest.fixture
def changed(made, tmp_path):
    """changed("b.json", f) -> path of the report after f(report)."""

    def write(name, change):
        report = copy.deepcopy(json.loads((made[0] / "r.json").read_text()))
        change(report)
        path = tmp_path / name
        path.write_text(json.dumps(report))
        return path

    return write


def slower(factor):
    def change(report):
        for run in report["runs"]:
            run["step_s"] = [factor * 0.02, factor * 0.0199, factor * 0.0201]
            run["parts_s"] = {name: factor * 0.02 * (name == "fetch") for name in run["parts_s"]}

    return change


def test_a_difference_is_held_against_the_intervals(changed, run_leat):
    a, b, c = changed("a.json", slower(1)), changed("b.json", slower(1.005)), changed("c.json", slower(1.2))
    same = json.loads(run_leat("profile", "diff", "--json", a, b, status=0).stdout)
    assert [row["beyond"] for row in same["rows"]] == [False, False]
    other = json.loads(run_leat("profile", "diff", "--json", a, c, status=0).stdout)
    assert {row["what"]: row["beyond"] for row in other["rows"]} == {"step, observed": True, "fetch": True}
    text = run_leat("profile", "diff", a, c, status=0).stdout
    assert "+20.0 %, beyond the intervals" in text


def test_reports_of_different_jobs_are_not_compared(changed, run_leat, made):
    plain = made[0] / "r.json"

    def batch(report):
        report["runs"][0]["batch"] = 64.0

    def model(report):
        report["model"] = "other"

    def short(report):
        report["runs"][0]["steps"] = 5.0

    def newer(report):
        report["leat_report"] = 99

    for change, says in (
        (batch, "'batch' is 2 in"),
        (model, "'model' is"),
        (short, "not enough data"),
        (newer, "a report of version 99"),
    ):
        done = run_leat("profile", "diff", plain, changed("x.json", change))
        assert done.returncode != 0
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_what_words_do_not_take_is_refused(run_leat, made):
    path = made[0] / "r.json"
    assert "one report" in run_leat("profile", "show", status=2).stderr
    assert "two reports" in run_leat("profile", "diff", path, status=2).stderr
    assert "--json" in run_leat("profile", "show", "--json", path, status=2).stderr
    assert "of one report" in run_leat("profile", "diff", "--html", "x", path, path, status=2).stderr


def test_ranks_are_on_the_page_in_the_order_of_their_numbers(made, run_leat, tmp_path):
    report = json.loads((made[0] / "r.json").read_text())
    step = report["steps"][0]
    report["steps"] = [{**step, "rank": rank} for rank in (2, 0, 10, 1)]
    (tmp_path / "r.json").write_text(json.dumps(report))
    run_leat("profile", "show", tmp_path / "r.json", "--html", tmp_path / "r.html", status=0)
    words = Page((tmp_path / "r.html").read_text()).words
    assert [word for word in words if re.fullmatch(r"rank \d+", word)] == ["rank 0", "rank 1", "rank 2", "rank 10"]
