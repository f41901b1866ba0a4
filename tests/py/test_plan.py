"""leat plan and leat.plan: the examples work, both give the same records, and wrong input is named."""

import datetime
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plan"
FILES = {
    "-j": "job.toml",
    "-c": "catalog.csv",
    "-m": "speeds.csv",
    "--revocations": "lifetimes.csv",
}


@pytest.fixture
def example(tmp_path):
    """A copy of the examples that a test may spoil."""
    folder = tmp_path / "plan"
    shutil.copytree(EXAMPLES, folder)
    catalog = folder / "catalog.csv"
    today = datetime.datetime.now(datetime.timezone.utc).date()
    catalog.write_text(re.sub(r"^# date: \S+", f"# date: {today}", catalog.read_text()))  # never old, and so no warning
    return folder


def arguments(folder, **without):
    return [word for flag, name in FILES.items() if flag not in without for word in (flag, folder / name)]


@pytest.fixture
def plan(run_leat, example):
    """plan("--deadline", "24h", status=0) -> CompletedProcess, on the copied examples."""

    def run(*more, status=0, **options):
        return run_leat("plan", *more, *arguments(example), status=status, **options)

    return run


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_example_gives_a_table_with_one_choice(plan):
    out = plan("--deadline", "24h").stdout
    chosen = [line for line in out.splitlines() if line.startswith("*|") or line.startswith("* ")]
    assert len([line for line in chosen if "usd" not in line[:40] and ":" in line]) >= 1
    assert "cheapest within the deadline" in out
    assert "configuration" in out
    assert "checkpoint" in out
    assert "why, or why not" in out


def test_json_has_the_records_of_the_table(plan):
    answer = json.loads(plan("--deadline", "24h", "--json").stdout)
    assert answer["met"] is True
    first, *others = answer["records"]
    assert first["chosen"]
    assert first["risk_time_s"] <= 24 * 3600
    for record in answer["records"]:
        assert record["time_s"]["lo"] <= record["time_s"]["mean"] <= record["time_s"]["hi"]
        assert record["usd"]["lo"] <= record["usd"]["mean"] <= record["usd"]["hi"]
    times = [record["time_s"]["mean"] for record in others]
    assert times == sorted(times)
    everything = json.loads(plan("--deadline", "24h", "--json", "--all").stdout)
    assert len(everything["records"]) == everything["considered"] == answer["considered"]


def test_python_returns_the_same_records(plan, example, leat):
    printed = json.loads(plan("--deadline", "24h", "--region", "us-east-1", "--json").stdout)
    returned = leat.plan(
        example / "job.toml",
        catalog=example / "catalog.csv",
        measurements=example / "speeds.csv",
        revocations=example / "lifetimes.csv",
        deadline="24h",
        region=["us-east-1"],
    )
    assert returned["records"] == printed["records"]


def test_python_takes_a_dict_and_single_settings(example, leat):
    files = {"catalog": example / "catalog.csv", "measurements": example / "speeds.csv"}
    job = {"job": {"name": "resnet50", "samples": 1281167, "epochs": 1, "batch": 256}}
    one = leat.plan(job, max_nodes=1, **files)
    two = leat.plan(job, max_nodes=1, settings={"job.epochs": 2}, **files)
    assert two["records"][0]["time_s"]["mean"] > 1.8 * one["records"][0]["time_s"]["mean"]
    lines = leat.plan(job, max_nodes=1, explain=one["records"][0]["config"], **files)["lines"]
    assert any(line["label"] == "money" for line in lines)
    with pytest.raises(ValueError, match=r"job: job.batch is missing"):
        leat.plan({"job": {"samples": 5, "epochs": 1}}, **files)
    with pytest.raises(ValueError, match="risk"):
        leat.plan(job, risk="most", **files)
    with pytest.raises(FileNotFoundError):
        leat.plan(job, catalog=example / "nothing.csv")


def test_python_names_what_is_wrong_like_the_command(example, leat):
    files = {"catalog": example / "catalog.csv", "measurements": example / "speeds.csv"}
    catalog = example / "catalog.csv"
    catalog.write_bytes(catalog.read_bytes().replace(b"p2.xlarge", b"p2\xff"))
    assert leat.plan(example / "job.toml", **files, seed=5_000_000_000)["records"]
    traces = example / "traces.csv"
    for text, says in [
        ("accelerator,file\nV100,trace.json\n", "there is no column 'region'"),
        ("accelerator,region,file\nV100,trace.json\n", "2 fields where the header has 3"),
        ("", "is empty"),
        ("\0", "NUL byte"),
    ]:
        traces.write_text(text)
        with pytest.raises(leat.errors.InvalidError, match=says):
            leat.plan(example / "job.toml", **files, traces=traces)
    traces.write_text("\ufeff# mine\nRegion,file,accelerator\n*, trace.json ,V100\n")
    answer = leat.plan(example / "job.toml", **files, traces=traces, deadline="40h", all=True)
    assert any(r["kind"] == "uniform" for r in answer["records"])
    for wrong in ({"deadline": 0}, {"deadline": "0h"}, {"budget": 0}, {"budget": "0usd"}, {"seed": -1}):
        with pytest.raises(leat.errors.InvalidError, match=next(iter(wrong))):
            leat.plan(example / "job.toml", **files, **wrong)


def test_ctrl_c_ends_a_long_plan(run_python, example):
    """It is given 20 s of processor time, of which the whole plan takes more."""
    done = run_python(
        """
import resource, signal, sys, leat
folder = sys.argv[1]
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
signal.signal(signal.SIGPROF, signal.default_int_handler)
signal.setitimer(signal.ITIMER_PROF, 0.1)
try:
    leat.plan(folder + "/job.toml", catalog=folder + "/catalog.csv", measurements=folder + "/speeds.csv",
              revocations=folder + "/lifetimes.csv", max_nodes=64, draws=100000)
except KeyboardInterrupt:
    print("interrupted")
""",
        example,
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_explain_shows_every_number_with_its_source(plan, example):
    out = plan("explain", "p3.16xlarge:2:transient:us-east-1:disk").stdout
    assert "plan/speeds.csv line" in out
    assert "plan/job.toml line" in out
    assert "plan/catalog.csv line 9" in out
    assert "default" not in out.split("replacing a machine")[1].splitlines()[0]
    answer = json.loads(plan("explain", "p3.16xlarge:2:transient:us-east-1:disk", "--json").stdout)
    assert all(line["label"] and line["text"] and line["source"] for line in answer["lines"])


def test_explain_wants_one_configuration(plan):
    assert "configurations begin with 'p3'" in plan("explain", "p3", status=2).stderr
    assert "no configuration is called 'x'" in plan("explain", "x", status=3).stderr
    assert "leat plan explain CONFIG" in plan("explain", status=2).stderr
    assert "not one of explain, launch or fit" in plan("guess", status=2).stderr


def test_a_deadline_that_nothing_meets_says_so_and_gives_the_nearest(plan):
    done = plan("--deadline", "5min", status=1)
    assert "nothing meets the deadline" in done.stderr
    assert "nearest:" in done.stdout
    answer = json.loads(plan("--deadline", "5min", "--json", status=1).stdout)
    assert answer["met"] is False
    assert answer["records"][0]["chosen"]


def test_a_budget_gives_the_fastest_within_it(plan):
    answer = json.loads(plan("--budget", "120usd", "--risk", "p95", "--json", "--all").stdout)
    first, *others = answer["records"]
    assert first["risk_usd"] <= 120
    assert all(r["risk_usd"] > 120 or r["time_s"]["mean"] >= first["time_s"]["mean"] for r in others)


def test_the_seed_makes_it_reproducible(plan):
    runs = [plan("--seed", seed, "--json").stdout for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_flags_win_over_the_file(plan):
    out = plan("explain", "p3.2xlarge:1:on-demand:us-east-1:disk", "--epochs", "1").stdout
    assert re.search(r"work\s+1 × 1281167 samples = 1281167 samples, epochs\s+--epochs", out)


class Page(HTMLParser):
    """Checks that tags are balanced and that nothing is fetched."""

    VOID = frozenset({"meta", "line", "path", "circle", "br"})

    def __init__(self):
        super().__init__()
        self.open = []
        self.counts = {}

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        for name, value in attributes:
            assert name not in ("src", "href"), f"{tag} fetches {value}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        assert self.open
        assert self.open.pop() == tag


def test_the_page_stands_alone(plan, example, tmp_path):
    edit(example / "job.toml", 'name = "resnet50"', 'name = "<b>&\\"x"')
    edit(example / "speeds.csv", "model,", "comment,")
    path = tmp_path / "plan.html"
    plan("--deadline", "24h", "--html", path)
    text = path.read_text()
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;&quot;x" in text
    assert "http" not in text
    assert "script" not in text
    page = Page()
    page.feed(text)
    assert not page.open
    assert page.counts["svg"] == 1
    assert page.counts["circle"] > 100
    assert page.counts["tr"] > 5


def test_the_page_is_refused_where_it_cannot_be_written(plan, tmp_path):
    assert "cannot write" in plan("--html", tmp_path / "no" / "x.html", status=3).stderr


WRONG = {
    "missing column": ("catalog.csv", "Region,", "Where,", r"catalog.csv line 2: there is no column 'Region'"),
    "falling distribution": ("lifetimes.csv", "1,0.2162", "1,0.9", r"lifetimes.csv line 5: the probability falls"),
    "percent": ("lifetimes.csv", "24,0.47", "24,47", r"lifetimes.csv line 5: probability is 47: from 0 to 1"),
    "empty distribution": ("lifetimes.csv", None, "accelerator,region,age_h,probability\n", "no distribution"),
    "milliseconds": ("speeds.csv", "256,0.701", "256,-701", r"speeds.csv line 3: step_s is -701"),
    "wrong unit": ("job.toml", '"205MB"', '"205min"', r"job.toml line 14: checkpoint.bytes: '205min' has no unit"),
    "unknown setting": ("job.toml", "[model]", "[model]\nlayers = 5", r"job.toml line 10: model.layers: no such"),
    "not toml": ("job.toml", "epochs = 90", "epochs: 90", r"job.toml line 5: '=' is expected"),
    "infinite": ("job.toml", "epochs = 90", "epochs = inf", r"job.toml line 5: 'inf' is not a value"),
    "gigaflops": ("job.toml", "[model]", "[model]\nflops = 12.3", r"job.toml line 10: model.flops: 12.3 is outside"),
    "no batch": ("job.toml", "batch = 256", "", r"job.toml: job.batch is missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named_with_file_and_line(plan, example, case):
    name, old, new, says = WRONG[case]
    if old is None:
        (example / name).write_text(new)
    else:
        edit(example / name, old, new)
    done = plan(status=2)
    assert re.search(says, done.stderr), done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) <= 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--deadline", "soon"], "deadline"),
        (["--budget", "500eur"], "budget: '500eur' is not in dollars"),
        (["--risk", "95"], "risk: '95' is not a percentile"),
        (["--risk", "p20"], "risk: 20"),
        (["--max-nodes", "0"], "max_nodes: 0"),
        (["--region", "mars"], "has nothing in 'mars'"),
        (["--region", "us-east-1,mars"], "has nothing in 'mars'"),
        (["--predict", "x.csv"], "--predict belongs to"),
        (["--deadline", "0h"], "deadline: '0h' leaves no time"),
        (["--budget", "0usd"], "budget: '0usd' leaves no money"),
        (["explain", "p3", "--html", "x.html"], "--html does not belong to 'leat plan explain'"),
        (["explain", "p3", "--all"], "--all does not belong to 'leat plan explain'"),
        (["fit", "x.csv", "--all"], "--all does not belong to 'leat plan fit'"),
        (["--set", "job.batch"], "--set: 'job.batch' is not KEY=VALUE"),
        (["--set", "job.bach=3"], "job.bach: no such setting"),
    ],
)
def test_wrong_options_are_named(plan, words, says):
    assert says in plan(*words, status=2).stderr


def test_a_job_may_be_given_by_flags_alone(run_leat, example):
    files = ["-c", example / "catalog.csv", "-m", example / "speeds.csv"]
    words = ["--batch", 256, "--steps", 1000, "--parameter-bytes", "102MB"]
    assert "the job is called 'job'" in run_leat("plan", *words, *files, status=2).stderr
    assert "resnet50: 48 configurations" in run_leat("plan", *words, *files, "--name", "resnet50", status=0).stdout
    assert "--name: a short text" in run_leat("plan", *words, *files, "--name", "x" * 99, status=2).stderr


FLAGS = {
    "--batch": ("job", "batch = 128", 128),
    "--samples": ("job", "samples = 50_000", 50_000),
    "--epochs": ("job", "epochs = 20", 20),
    "--flops": ("model", "flops = 1e9", 1e9),
    "--parameters": ("model", "parameters = 1_800_000", 1_800_000),
    "--tensors": ("model", "tensors = 100", 100),
    "--parameter-bytes": ("model", 'parameter_bytes = "7.2MB"', "7.2MB"),
    "--checkpoint-bytes": ("checkpoint", 'bytes = "16MB"', "16MB"),
}


def test_every_flag_of_the_job_says_what_the_file_says(run_leat, example):
    def records(*words):
        measured = ["-m", example / "models.csv", "-c", example / "catalog.csv"]
        more = ["--json", "--all", "--revocations", example / "lifetimes.csv"]
        return json.loads(run_leat("plan", *words, *measured, *more, status=0).stdout)["records"]

    def job_of(flags):
        tables = {}
        for table, line, _ in flags:
            tables.setdefault(table, []).append(line)
        path = example / "mine.toml"
        path.write_text("".join(f"[{t}]\n" + "\n".join(lines) + "\n" for t, lines in tables.items()))
        return path

    whole = records("-j", job_of(FLAGS.values()))
    assert whole
    assert records(*[word for flag, (_, _, value) in FLAGS.items() for word in (flag, value)]) == whole
    # each of them by itself, over a file that says something else
    others = {"--batch": 64, "--samples": 10_000, "--epochs": 3, "--flops": 5e8}
    # (--parameters weigh nothing on a K80 and their bytes nothing on one GPU; the fit above needs the first, though)
    others |= {"--tensors": 20, "--checkpoint-bytes": "60MB"}
    path = job_of(FLAGS.values())
    for flag, value in others.items():
        assert records("-j", path, flag, value) != whole, flag
    assert records("-j", path, "--checkpoint-time", "3min") != whole


def test_least_accuracy_limits_the_asynchronous_workers(plan, example):
    edit(example / "job.toml", 'mode = "allreduce"', 'mode = "async"')
    job = example / "job.toml"
    text = "[server]\nusd_per_hour = 0.5\n[accuracy]\nworkers = [1, 2, 4]\npercent = [93.0, 91.5, 90.0]\n[network]"
    edit(job, "[network]", text)
    edit(job, 'latency = "30us"', 'latency = "30us"\nbandwidth = "10Gbit/s"')

    def most(*words):
        answer = json.loads(plan("--json", "--all", *words).stdout)
        met = [r for r in answer["records"] if r["meets"]]
        assert all(r["accuracy"] is not None for r in met)
        return max(r["gpus"] for r in met)

    assert most("--min-accuracy", "92") == 1
    assert most("--min-accuracy", "90") == 4


def test_missing_files_are_asked_for_by_name(run_leat, example):
    assert "job.batch is missing" in run_leat("plan", status=2).stderr
    job = ["-j", example / "job.toml"]
    assert "a catalog is missing" in run_leat("plan", *job, status=2).stderr
    both = [*job, "-c", example / "catalog.csv"]
    assert "measurements (a CSV) or a profiler's report are missing" in run_leat("plan", *both, status=2).stderr
    assert "cannot open" in run_leat("plan", "-j", example / "none.toml", status=3).stderr


def test_old_prices_and_unknown_columns_warn(plan, example):
    catalog = example / "catalog.csv"
    catalog.write_text(re.sub(r"^# date: \S+", "# date: 2020-01-01", catalog.read_text()))
    edit(example / "catalog.csv", "MemoryGiB", "Colour")
    stderr = plan().stderr
    assert re.search(r"warning: .*catalog.csv: prices of 2020-01-01 are \d+ days old", stderr)
    assert re.search(r"warning: .*catalog.csv line 2: column 'Colour' is not known", stderr)


def test_bytes_that_are_no_text_do_no_harm(plan, example):
    catalog = example / "catalog.csv"
    catalog.write_bytes(catalog.read_bytes().replace(b"p2.xlarge", b"p2\xff\x1b[1m"))
    answer = json.loads(plan("--json", "--all").stdout)
    assert any(r["type"] == "p2? [1m" for r in answer["records"])


def test_what_is_left_out_is_told(plan, example):
    edit(example / "lifetimes.csv", "V100,us-east-1,0,0,\nV100,us-east-1,1,0.3685,\nV100,us-east-1,24,0.67,taken\n", "")
    done = plan()
    assert done.stderr == ""
    assert "left out:\n  no lifetimes (revocations) or trace (traces) of transient V100 (48 times)\n" in done.stdout
    assert "no lifetimes (revocations) of transient V100" in plan(env={"LEAT_LOG": "info"}).stderr


def test_traces_give_a_policy_for_the_deadline(plan, example):
    answer = json.loads(plan("--traces", example / "traces.csv", "--deadline", "40h", "--json", "--all").stdout)
    ones = [r for r in answer["records"] if r["type"] == "p3.8xlarge" and r["nodes"] == 1]
    uniform = [r for r in ones if r["kind"] == "uniform"]
    demand = [r for r in ones if r["kind"] == "on-demand"]
    assert uniform
    assert all(r["risk_time_s"] <= 40 * 3600 for r in uniform)
    assert min(r["usd"]["mean"] for r in uniform) < 0.8 * min(r["usd"]["mean"] for r in demand)


def test_wrong_traces_are_named(plan, example):
    (example / "broken.json").write_text('{"metadata": {"gap_seconds": 600}, "data": [1, 0.5]}')
    (example / "traces.csv").write_text("accelerator,region,file\nV100,*,broken.json\n")
    assert "broken.json: tick 2 of 'data'" in plan("--traces", example / "traces.csv", status=2).stderr
    (example / "traces.csv").write_text("accelerator,region,file\nV100,*,none.json\n")
    assert re.search(r"traces.csv line 2: cannot open", plan("--traces", example / "traces.csv", status=3).stderr)
    (example / "traces.csv").write_text("accelerator,region,file,colour\nV100,*,trace.json,a\n")
    assert (
        "traces.csv line 1: column 'colour' is not known" in plan("--traces", example / "traces.csv", status=2).stderr
    )
    (example / "traces.csv").write_text("accelerator,file\nV100,none.json\n")
    assert "there is no column 'region'" in plan("--traces", example / "traces.csv", status=2).stderr


def test_a_profilers_report_stands_in_for_measurements(run_leat, example):
    files = ["-j", example / "job.toml", "-c", example / "catalog.csv", "--report", example / "report.json"]
    out = run_leat("plan", "explain", "p3.8xlarge:2:on-demand:us-east-1:disk", *files, status=0).stdout
    assert re.search(r"step of one GPU\s+0\.7 s, for 256 samples\s+measured, .*report\.json", out)
    speed = float(re.search(r"speed of the GPUs\s+([\d.]+) samples/s", out).group(1))
    assert abs(speed / (8 * 256 / 0.84) - 1) < 0.01
    (example / "report.json").write_text('{"accelerator": "V100", "batch": 256, "step_s": {"compute": "fast"}}')
    stderr = run_leat("plan", *files, status=2).stderr
    assert "report.json: 'compute' is not a number" in stderr


def test_fit_prints_the_error_of_rows_left_out_and_predicts(run_leat, example):
    out = run_leat("plan", "fit", example / "models.csv", "--predict", example / "mine.csv", status=0).stdout
    assert re.search(r"step of K80: 16 rows, error of rows left out: mean 4\.\d %", out)
    assert re.search(r"step of P100: 16 rows, error of rows left out: mean 6\.\d %", out)
    assert re.search(r"checkpoint: 16 rows, error of rows left out: mean 3\.\d %", out)
    predicted = re.findall(r"line \d+\s+\S.*(?:step|checkpoint)\s+([\d.]+) s \[([\d.]+), ([\d.]+)\]", out)
    assert len(predicted) >= 3
    for mean, low, high in predicted:
        assert float(low) < float(mean) < float(high)


def test_fit_predicts_rows_of_its_own_table_that_lack_the_time(run_leat, example):
    models = example / "models.csv"
    models.write_text(models.read_text() + "mine,K80,3.2e9,3600000,150,,30e6,\nfew,V100,1e9,1,1,0.1,,\n")
    done = run_leat("plan", "fit", models, status=0)
    own = done.stdout.split("rows without a time:\n")[1]
    assert re.search(r"line 35\s+mine\s+K80\s+step\s+0\.3\d+ s \[", own)
    assert re.search(r"line 35\s+mine\s+K80\s+checkpoint\s+3\.\d+ s \[", own)
    assert len(own.strip().splitlines()) == 2
    assert "warning: steps of V100: 1 rows are too few" in done.stderr


def test_the_examples_of_the_help_work(run_leat, example):
    text = run_leat("plan", "--help", status=0).stdout
    examples = text.split("\nexamples:\n")[1].replace("\\\n", "")
    lines = [line.split()[1:] for line in examples.splitlines() if line.strip().startswith("leat ")]
    assert len(lines) == 6
    for words in lines:
        run_leat(*words, status=0, cwd=example)


def test_fit_refuses_what_it_cannot_fit(run_leat, example, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("accelerator,flops_per_step,step_s\nK80,1e9,0.1\nK80,2e9,0.2\n")
    assert "2 rows are too few" in run_leat("plan", "fit", few, status=2).stderr
    few.write_text("accelerator,colour\nK80,red\n")
    done = run_leat("plan", "fit", few, status=2)
    assert "nothing to fit" in done.stderr
    assert "column 'colour' is not known" in done.stderr
    assert "cannot open" in run_leat("plan", "fit", tmp_path / "none.csv", status=3).stderr
    assert "leat plan fit DATA.csv" in run_leat("plan", "fit", status=2).stderr


def test_help_comes_from_the_table(run_leat):
    text = run_leat("plan", "--help", status=0).stdout
    for word in ("--deadline", "--budget", "--risk", "--max-nodes", "--region", "explain CONFIG", "fit DATA.csv"):
        assert word in text


def test_a_bad_row_of_a_catalog_costs_a_row(plan, example):
    edit(example / "catalog.csv", "0.90,0.27", "nan,0.27")
    done = plan("--json", "--all")
    assert "catalog.csv line 3: Price: 'nan' is not a number; the row is left out" in done.stderr
    types = {r["type"] for r in json.loads(done.stdout)["records"]}
    assert "p2.xlarge" not in types
    assert "p2.8xlarge" in types


def test_several_catalogs_are_compared(run_leat, example, tmp_path, leat):
    other = tmp_path / "other.csv"
    other.write_text((example / "catalog.csv").read_text().replace("p3.", "x3.").replace("3.06", "2.06"))
    files = ["-j", example / "job.toml", "-m", example / "speeds.csv", "-c", example / "catalog.csv", "-c", other]
    answer = json.loads(run_leat("plan", *files, "--json", "--all", status=0).stdout)
    assert {r["provider"] for r in answer["records"]} == {"catalog", "other"}
    assert any(r["config"].startswith("x3.2xlarge:1:on-demand:other/us-east-1") for r in answer["records"])
    only = json.loads(run_leat("plan", *files, "--json", "--all", "--region", "other/us-east-1", status=0).stdout)
    assert {r["provider"] for r in only["records"]} == {"other"}
    same = leat.plan(
        example / "job.toml",
        catalog=[example / "catalog.csv", other],
        measurements=example / "speeds.csv",
        region="other/us-east-1",
        all=True,
    )
    assert same["records"] == only["records"]


def test_equal_offers_name_the_one_that_stands_for_them(run_leat, example):
    catalog = example / "catalog.csv"
    text = catalog.read_text()
    catalog.write_text(text + text.split("GpuInfo", 1)[1].split("\n", 1)[1].replace("us-east-1", "eu-west-1"))
    files = ["-j", example / "job.toml", "-c", catalog, "-m", example / "speeds.csv"]
    answer = json.loads(run_leat("plan", *files, "--json", "--all", status=0).stdout)
    twins = [r for r in answer["records"] if r["same_as"]]
    assert len(twins) == answer["considered"] // 2
    assert all(r["same_as"] != r["config"] and not r["front"] for r in twins)
    out = run_leat("plan", *files, status=0).stdout
    assert "; the same in " in out


def test_regions_with_commas_can_be_named(run_leat, example):
    catalog = example / "catalog.csv"
    text = catalog.read_text()
    catalog.write_text(
        text.replace("us-east-1,us-east-1a", '"Denmark, DK, EU",').replace("us-east-1,us-east-1b", '", CA",')
    )
    files = ["-j", example / "job.toml", "-c", catalog, "-m", example / "speeds.csv"]

    def regions(*words):
        answer = json.loads(run_leat("plan", *files, "--json", "--all", *words, status=0).stdout)
        return {r["region"] for r in answer["records"]}

    assert regions("--region", "Denmark, DK, EU") == {"Denmark, DK, EU"}
    assert regions("--region", ", CA") == {", CA"}
    assert regions("--region", ", CA", "--region", "Denmark, DK, EU") == {", CA", "Denmark, DK, EU"}
    assert "nothing in 'DK'" in run_leat("plan", *files, "--region", "DK, EU", status=2).stderr


def test_several_reports_count_together(run_leat, example):
    report = {"accelerator": "K80", "batch": 256, "step_s": {"compute": 4.9}}
    (example / "k80.json").write_text(json.dumps(report))
    files = ["-j", example / "job.toml", "-c", example / "catalog.csv", "--report", example / "report.json"]
    one = json.loads(run_leat("plan", *files, "--json", "--all", status=0).stdout)
    two = json.loads(run_leat("plan", *files, "--report", example / "k80.json", "--json", "--all", status=0).stdout)
    assert {r["accelerator"] for r in one["records"]} == {"V100"}
    assert {r["accelerator"] for r in two["records"]} == {"V100", "K80"}
    (example / "k80.json").write_text(json.dumps({**report, "nods": 2}))
    stderr = run_leat("plan", *files, "--report", example / "k80.json", status=2).stderr
    assert "k80.json: 'nods' is not known here" in stderr


def test_fit_prints_json(run_leat, example):
    words = ["plan", "fit", example / "models.csv", "--predict", example / "mine.csv", "--json"]
    answer = json.loads(run_leat(*words, status=0).stdout)
    by_name = {(fit["target"], fit["accelerator"]): fit for fit in answer["fits"]}
    assert 0.04 < by_name["step", "K80"]["left_out_mean"] < 0.05
    assert len(by_name["checkpoint", None]["rows"]) == 16
    assert all(p["lo_s"] < p["mean_s"] < p["hi_s"] for p in answer["predictions"])
    assert len(answer["predictions"]) == 4


def test_the_table_names_gpus_price_and_zone(plan):
    out = plan("--deadline", "24h").stdout
    assert re.search(r"^\*\| p3\.8xlarge:1:transient:us-east-1:disk +4 × V100 +us-east-1a +3\.81 ", out, re.M)


CATALOGS = EXAMPLES.parents[2] / "shared" / "catalogs"


@pytest.mark.parametrize("name", ["aws", "azure", "gcp", "lambda", "seeweb", "vast"])
def test_real_catalogs_give_an_answer(run_leat, example, name):
    path = CATALOGS / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    speeds = "accelerator,batch,step_s\nT4,256,1.16\nV100,256,0.70\nA100,256,0.32\nA100-80GB,256,0.31\nH100,256,0.16\n"
    (example / "speeds.csv").write_text(speeds + "RTX4090,256,0.36\n")
    files = ["-j", example / "job.toml", "-c", path, "-m", example / "speeds.csv", "--json", "--all"]
    answer = json.loads(run_leat("plan", *files, status=0).stdout)
    assert answer["considered"] >= 10
    for record in answer["records"]:
        assert record["usd_per_hour"] > 0
        if name == "aws":
            assert record["zone"].startswith(("use1", "usw2", "euw1"))
            assert ("/" in record["region"]) == (record["zone"].count("-") > 1)


def test_a_cache_in_memory_is_bounded_by_the_machine(run_leat, example):
    catalog = example / "catalog.csv"
    catalog.write_text(catalog.read_text().replace("p3.2xlarge,V100,1,8,61", "p3.2xlarge,V100,1,8,16"))
    files = ["-j", example / "job.toml", "-c", catalog, "-m", example / "speeds.csv"]
    out = run_leat("plan", "explain", "p3.2xlarge:1:on-demand:us-east-1:memory", *files, status=0).stdout
    assert re.search(r"cache of a machine +9.60* GiB, less than asked for: no room .*60 % of the machine's 16 GiB", out)


def test_a_model_that_does_not_fit_is_left_out(run_leat, example):
    files = ["-j", example / "job.toml", "-c", example / "catalog.csv", "-m", example / "speeds.csv", "--json"]
    few = ["--parameters", "3_000_000_000".replace("_", "")]
    stderr = run_leat("plan", *files, *few, status=2).stderr
    assert "do not fit into its 12 GiB; model.sharded would spread it" in stderr
    answer = json.loads(run_leat("plan", *files, *few, "--set", "model.sharded=true", "--all", status=0).stdout)
    assert min(r["gpus"] for r in answer["records"] if r["accelerator"] == "V100") == 3


def test_an_unmeasured_accelerator_is_marked_and_the_next_run_named(run_leat, example):
    (example / "speeds.csv").write_text("model,accelerator,batch,step_s\nresnet50,K80,256,4.92\n")
    files = ["-j", example / "job.toml", "-c", example / "catalog.csv", "-m", example / "speeds.csv"]
    plain = json.loads(run_leat("plan", *files, "--json", "--all", status=0).stdout)
    assert {r["accelerator"] for r in plain["records"]} == {"K80"}
    mixed = [*files, "--set", "model.precision=mixed"]
    answer = json.loads(run_leat("plan", *mixed, "--json", "--all", status=0).stdout)
    assert all(r["transferred"] == (r["accelerator"] == "V100") for r in answer["records"])
    assert any(note.startswith("measure next: this job on one V100") for note in answer["notes"])
    out = run_leat("plan", *mixed, status=0)
    assert re.search(r"× V100 ~ ", out.stdout)
    assert "measure next" in out.stderr


def records_of(run_leat, example, *words):
    files = ["-j", example / "job.toml", "-c", example / "catalog.csv", "-m", example / "speeds.csv"]
    more = ["--revocations", example / "lifetimes.csv", "--json", "--all", *words]
    answer = json.loads(run_leat("plan", *files, *more, status=0).stdout)
    return {r["config"]: r for r in answer["records"]}


def test_a_restart_of_all_loses_what_an_elastic_job_keeps(run_leat, example):
    name = "p3.16xlarge:1+3:mixed:us-east-1:disk"
    elastic = records_of(run_leat, example)[name]
    everything = records_of(run_leat, example, "--set", "job.restart=all")[name]
    assert elastic["checkpoint_interval_s"] is None
    assert everything["checkpoint_interval_s"] < 3600
    assert everything["time_s"]["mean"] > elastic["time_s"]["mean"]
    slow = records_of(run_leat, example, "--set", "job.restart=all", "--set", "checkpoint.restore=30min")[name]
    assert slow["time_s"]["mean"] > everything["time_s"]["mean"] + 600
    sharded = records_of(run_leat, example, "--set", "model.sharded=true")[name]
    assert sharded["checkpoint_interval_s"] is not None


def test_background_checkpoints_and_billing_steps_count(run_leat, example):
    name = "p3.16xlarge:4:transient:us-east-1:disk"
    plain = records_of(run_leat, example, "--checkpoint-time", "60s")[name]
    behind = records_of(run_leat, example, "--checkpoint-time", "60s", "--set", "checkpoint.stall=1s")[name]
    assert behind["time_s"]["mean"] < plain["time_s"]["mean"]
    demand = "p3.8xlarge:1:on-demand:us-east-1:disk"
    short = ["--epochs", "1"]  # a quarter of an hour
    second = records_of(run_leat, example, *short)[demand]
    hour = records_of(run_leat, example, *short, "--set", "billing.increment=1h")[demand]
    fixed = 147e9 / 8388608 * 0.0004 / 1000
    assert second["usd"]["mean"] < 0.5 * second["usd_per_hour"]
    assert hour["usd"]["mean"] == pytest.approx(hour["usd_per_hour"] + fixed, rel=1e-3)


def test_preparing_limits_the_speed_without_a_dataset_too(run_leat, example):
    edit(example / "job.toml", 'dataset = "147GB"\n', "")
    name = "p3.16xlarge:1:on-demand:us-east-1"
    fast = records_of(run_leat, example)[name]
    slow = records_of(run_leat, example, "--set", "data.prep_per_vcpu=10")[name]
    assert fast["data_stall_share"] == 0
    assert slow["data_stall_share"] > 0.7


def test_the_page_draws_a_sample_of_all(run_leat, example, tmp_path):
    header, *_ = (example / "catalog.csv").read_text().split("\n", 2)[1:]
    rows = [f"t{i},V100,1,8,61,,{3 + 0.05 * i:.2f},,us-east-1,a" for i in range(260)]
    (example / "catalog.csv").write_text("\n".join([header, *rows, ""]))
    page = tmp_path / "p.html"
    files = ["-j", example / "job.toml", "-c", example / "catalog.csv", "-m", example / "speeds.csv"]
    out = run_leat("plan", *files, "--draws", "50", "--html", page, "--json", "--all", status=0).stdout
    records = json.loads(out)["records"]
    drawn = [float(usd) for usd in re.findall(r"<title>[^<]*, ([\d.]+) usd</title>", page.read_text())]
    assert len(records) > 4000
    assert 1500 < len(drawn) < 3500
    dearest = max(r["usd"]["mean"] for r in records)
    assert max(drawn) > 0.97 * dearest
