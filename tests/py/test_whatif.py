"""`leat whatif`: answers follow from the report, and what it does not hold is said to be missing."""

import json

import pytest

RUN = {
    "mode": "observed", "gpus": 1, "nodes": 1, "workers": 4, "cores": 8, "device": True, "steps": 100.0, "batch": 32.0,
    "step_s": [0.1, 0.099, 0.101], "fetch_s": 0.3, "prepare_s": 0.1, "prepare_cpu_s": 0.1, "batch_bytes": 1e6,
    "gradient_bytes": 0.0, "buckets": 0.0, "warmup_s": 0.0,
    "parts_s": {"fetch": 0.06, "prepare": 0.0, "input": 0.0, "copy": 0.0, "forward": 0.02, "backward": 0.02,
                "communication": 0.0, "optimizer": 0.0, "other": 0.0},
}  # fmt: skip


def report_of(*runs, **more):
    """A report with these runs, in the form of version 1, which stays readable."""
    top = dict.fromkeys(("leat", "made", "accelerator", "type", "model", "command"), "x")
    return {"leat_report": 1, **top, "runs": runs, "stalls": [], "ranks": [], "notes": [], **more}


@pytest.fixture
def report(tmp_path):
    """report(read_bytes=…) -> path of a report with one run."""

    def write(name="r.json", kind="", **changes):
        path = tmp_path / name
        path.write_text(json.dumps(report_of({**RUN, **changes}, accelerator="H200", type=kind)))
        return path

    return write


@pytest.fixture
def ask(run_leat):
    return lambda *words, status=0: json.loads(run_leat("whatif", "--json", *words, status=status).stdout)


def test_the_curve_falls_to_computing_and_every_point_has_an_interval(report, ask):
    answer = ask(report(), "--cache", "50%", "--sample-bytes", "100kb")
    curve = [point["step_s"] for point in answer["cache"]]
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == pytest.approx(0.1)
    assert curve[-1] == pytest.approx(0.041)  # computing, and taking a batch over
    assert all(point["low_s"] < point["step_s"] < point["high_s"] for point in answer["cache"][1:])
    assert answer["step_s"][0] == pytest.approx((0.15 + 0.1) / 4)
    assert [limit["limit"] for limit in answer["limits"]] == ["fetch", "computing"]
    assert answer["cores_per_gpu"][0] == pytest.approx(0.1 / 0.041)


def test_what_a_cache_would_save_is_unknown_where_nothing_was_read(report, ask, run_leat):
    answer = ask(report(), "--cores", "16")
    assert answer["cache"] is None
    assert answer["step_s"][0] == pytest.approx(0.1)
    out = run_leat("whatif", report(), "--cores", "16", status=0).stdout
    assert "with a cache: not enough data: nothing was seen to be read" in out
    assert "with a cache of" not in out


def test_leats_loader_is_simulated_with_the_measured_costs(report, ask, run_leat):
    path = report()
    said = run_leat("whatif", path, "--loader", "leat", status=2).stderr
    assert "not enough data" in said
    assert "--sample-bytes" in said
    fast = ask(path, "--loader", "leat", "--sample-bytes", "100kb", "--bandwidth", "2GB/s")
    assert fast["limit"] == "computing"
    assert fast["step_s"][0] == pytest.approx(0.04, rel=0.02)
    slow = ask(path, "--loader", "leat", "--sample-bytes", "100kb", "--bandwidth", "20MB/s")
    assert slow["limit"] == "fetch"
    assert slow["step_s"][0] == pytest.approx(32 * 100e3 / 20e6, rel=0.1)
    one = ask(path, "--loader", "leat", "--sample-bytes", "100kb", "--bandwidth", "2GB/s", "--cores", "1")
    assert one["limit"] == "prepare"
    assert one["step_s"][0] == pytest.approx(0.1, rel=0.05)
    better = ask(
        path, "--loader", "leat", "--sample-bytes", "100kb", "--bandwidth", "2GB/s", "--cores", "1", "--prep", "5000"
    )
    assert better["limit"] == "computing"
    assert "5000 samples per second and core" in better["note"]


def test_money_comes_from_a_price_or_from_catalogs(report, ask, run_leat, tmp_path):
    money = ask(report(), "--cache", "100", "--sample-bytes", "100kb", "--price", "36")["usd_per_million_samples"]
    assert money["now"] == pytest.approx(36 / 3600 * 0.1 / 32 * 1e6)
    assert money["then"][0] == pytest.approx(36 / 3600 * 0.041 / 32 * 1e6)
    assert money["then"][1] < money["then"][0] < money["then"][2]
    catalog = tmp_path / "c.csv"
    catalog.write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
        "small,H200,1,8,64,,10,3,a,a-1\nsmall,H200,1,8,64,,9,3,b,b-1\nbig,H200,1,16,64,,12,3,a,a-1\n"
    )
    typed = report("t.json", kind="small")
    money = ask(typed, "-c", catalog, "--type", "big", "--cores", "16", "--workers", "16")["usd_per_million_samples"]
    assert money["now"] == pytest.approx(9 / 3600 * 0.1 / 32 * 1e6)
    assert money["then"][0] == pytest.approx(12 / 3600 * 0.041 / 32 * 1e6)
    assert (
        "no catalog has a price on demand for the type 'huge'"
        in run_leat("whatif", typed, "-c", catalog, "--type", "huge").stderr
    )
    assert "'leat profile --type'" in run_leat("whatif", report(), "-c", catalog, "--type", "big", status=2).stderr
    assert "saved: of $100" in run_leat("whatif", typed, "--workers", "8", "--price", "$3", status=0).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cache", "101%"], "a percentage is from 0 to 100"),
        (["--cache", "half"], "--cache"),
        (["--gpu-speed", "-2x"], "--gpu-speed"),
        (["--loader", "dali"], "only leat can be simulated"),
        (["--prep", "10"], "only with --loader leat"),
        (["--loader", "leat", "--workers", "3"], "leat.Loader has none"),
        (["--type", "x"], "give --catalog"),
        (["--price", "1", "--type", "x"], "one price for both"),
        (["--nodes", "4"], "say --network"),
        (["--gpus", "4"], "profile 2 or more"),
        (["--bandwidth", "1GB/s"], "give --sample-bytes"),
        # What would change nothing, though it was said.
        (["--gpu-speed", "0"], "--gpu-speed 0: a factor such as 2"),
        (["--storage-speed", "0x"], "--storage-speed 0x: a factor such as 2"),
        *((["--" + name, "0"], f"--{name} 0: it has to be more") for name in ("cores", "workers", "gpus", "nodes")),
        (["--bandwidth", "0"], "--bandwidth 0: it has to be more"),
        (["--nodes", "2", "--network", "0"], "--network 0: it has to be more"),
        (["--latency", "1s"], "only with --loader leat"),
        (["--network", "1Gbit/s"], "only with --nodes"),
        (["--sample-bytes", "1MB"], "only with --cache, --storage-speed, --bandwidth or --loader leat"),
        # Nothing was seen to be read: what it waits for may be no storage.
        (["--cache", "50%"], "nothing was seen to be read"),
        (["--storage-speed", "2x"], "nothing was seen to be read"),
        (["--bandwidth", "1GB/s", "--sample-bytes", "1MB", "--storage-speed", "2"], "--bandwidth says already"),
        (["--catalog", "x.csv"], "only with --type"),
        (["--price", "0"], "a machine that costs nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_in_one_line(report, run_leat, words, says):
    done = run_leat("whatif", report(), *words)
    assert done.returncode != 0
    assert says in done.stderr
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if not line.startswith("Try ")]) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": None}, "'steps' is not a number that can be"),
        ({"steps": -30.0}, "'steps' is not a number that can be"),
        ({"batch": None}, "'batch' is not a number that can be"),
        ({"fetch_s": -0.1}, "'fetch_s' is not a number that can be"),
        ({"step_s": [0.1, 0.2, 0.3]}, "'step_s' is not [mean, low, high]"),
        ({"parts_s": {**RUN["parts_s"], "other": None}}, "'other' is not a number that can be"),
        ({"parts_s": {**RUN["parts_s"], "other": -0.1}}, "'other' is not a number that can be"),
    ],
)
def test_numbers_that_cannot_be_are_refused(report, run_leat, changes, says):
    for words in (["whatif"], ["profile", "show"]):
        assert says in run_leat(*words, report(**changes), status=2).stderr


def test_a_batch_of_unknown_size_has_no_price(report, run_leat):
    """As of a loop whose loader nobody saw: it is not infinite."""
    done = run_leat("whatif", report(batch=0.0), "--price", "3", status=2)
    assert "not enough data: the report does not say how many samples a batch has" in done.stderr
    assert done.stdout == ""


def test_reports_that_are_damaged_or_newer_are_refused_by_name(report, run_leat, tmp_path):
    path = report()
    text = path.read_text()
    path.write_text(text.replace('"leat_report": 1', '"leat_report": 9'))
    assert "r.json: a report of version 9" in run_leat("whatif", path).stderr
    for length in (0, 1, 20, len(text) // 2, len(text) - 1):
        path.write_text(text[:length])
        done = run_leat("whatif", path, status=2)
        assert done.stderr.startswith(f"leat: {path}")
        assert len(done.stderr.splitlines()) == 1
    path.write_text("[]")
    assert "not a report of 'leat profile'" in run_leat("whatif", path, status=2).stderr
    run_leat("whatif", tmp_path / "none.json", status=3)
