"""leat plan, beyond the choice: what starts it, a run beside its prediction, the rest of a run, where machines and data are."""

import json
import subprocess

import pytest
import yaml
from test_plan import arguments, edit, example, plan  # noqa: F401

CONFIG = "p3.16xlarge:1:on-demand:us-east-1:disk"


def records(done):
    return {r["config"]: r for r in json.loads(done.stdout)["records"]}


def terms(done):
    return {line["label"]: line for line in json.loads(done.stdout)["lines"]}


# ---- launching ----


@pytest.mark.parametrize("config", ["p3.2xlarge:4:transient:us-east-1:disk", CONFIG])
def test_a_skypilot_task_is_yaml_with_what_was_planned(plan, config):  # noqa: F811
    text = plan("launch", config, "--script", "train.py --every {checkpoint_steps} --note 'a: \"b\"'").stdout
    task = yaml.safe_load(text)
    record = records(plan("--all", "--json"))[config]
    assert set(task) == {"name", "num_nodes", "resources", "envs", "run"}
    assert task["name"] == "resnet50"
    assert task["num_nodes"] == record["nodes"]
    assert task["resources"]["instance_type"] == record["type"]
    assert task["resources"]["accelerators"] == f"V100:{record['gpus_per_node']}"
    assert task["resources"]["use_spot"] is (record["kind"] == "transient")
    assert task["resources"]["region"] == "us-east-1"
    assert task["resources"]["disk_size"] >= 180
    steps = int(task["envs"]["LEAT_CHECKPOINT_STEPS"])
    if record["kind"] == "transient":
        assert abs(int(task["envs"]["LEAT_CHECKPOINT_SECONDS"]) - record["checkpoint_interval_s"]) <= 0.5
        step_s = record["time_s"]["mean"] / (1281167 * 90 / (256 * record["gpus"]))
        assert record["checkpoint_interval_s"] / steps == pytest.approx(step_s, rel=0.2)
    else:
        assert steps == 0
    assert f"train.py --every {steps} --note 'a: \"b\"'" in task["run"]
    assert f"--nproc-per-node={record['gpus_per_node']}" in task["run"]
    subprocess.run(["bash", "-n"], input=task["run"], text=True, check=True)


def test_a_slurm_script_is_bash_and_asks_for_the_planned_time(plan):  # noqa: F811
    text = plan("launch", "p3.16xlarge:2:transient:us-east-1:disk", "--as", "sbatch", "--deadline", "30h").stdout
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert text.startswith("#!/bin/bash\n#SBATCH ")
    options = dict(line[8:].split("=", 1) for line in text.splitlines() if line.startswith("#SBATCH ") and "=" in line)
    assert options["--nodes"] == "2"
    assert options["--gpus-per-node"] == "8"
    assert options["--cpus-per-task"] == "64"
    assert options["--time"] == "1-06:00:00"
    assert "#SBATCH --requeue" in text
    assert "srun torchrun --nnodes=2 --nproc-per-node=8" in text
    assert "--requeue" not in plan("launch", CONFIG, "--as", "sbatch").stdout


def test_a_torchrun_line_runs(plan, tmp_path):  # noqa: F811
    """With a torchrun that shows its arguments: the line starts it with the interval in words and environment."""
    fake = tmp_path / "torchrun"
    fake.write_text('#!/bin/sh\necho "$LEAT_CHECKPOINT_SECONDS $LEAT_BATCH $@"\n')
    fake.chmod(0o755)
    line = plan(
        "launch", "p3.2xlarge:1+3:mixed:us-east-1:disk", "--as", "torchrun", "--script", "t.py {batch} {accumulate}"
    ).stdout
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MASTER_ADDR": "10.0.0.1"}
    done = subprocess.run(["bash"], input=line, text=True, check=True, stdout=subprocess.PIPE, env=environment)
    words = done.stdout.split()
    assert words[:2] == ["0", "256"]
    assert "--nnodes=1:4" in words  # elastic: the others go on
    assert "--rdzv-endpoint=10.0.0.1:29500" in words
    assert words[-3:] == ["t.py", "256", "1"]


def test_what_cannot_be_launched_says_why(plan, example):  # noqa: F811
    mixed = plan("launch", "p3.2xlarge:1+3:mixed:us-east-1:disk", status=2)
    assert "one kind of machine, and mixed has two" in mixed.stderr
    assert "'slurm' is not one of skypilot, sbatch or torchrun" in plan("launch", "--as", "slurm", status=2).stderr
    typo = plan("launch", "--as", "torchrun", "--script", "t.py {checkpoint_stops}", status=2)
    assert "{checkpoint_steps}" in typo.stderr
    assert "one line is expected" in plan("launch", "--as", "sbatch", "--script", "a\nb", status=2).stderr
    assert "belong to 'leat plan launch" in plan("--as", "sbatch", status=2).stderr
    assert "no configuration is called 'x'" in plan("launch", "x", status=3).stderr


def test_python_launches_the_same_text(plan, example):  # noqa: F811
    import leat

    files = {"catalog": example / "catalog.csv", "measurements": example / "speeds.csv"}
    answer = leat.plan(example / "job.toml", **files, launch="sbatch", config=CONFIG, script="x.py")
    assert answer["config"] == CONFIG
    assert "srun torchrun --nnodes=1 --nproc-per-node=8 --standalone x.py\n" in answer["text"]
    with pytest.raises(leat.errors.InvalidError, match="belong to launch"):
        leat.plan(example / "job.toml", **files, script="x.py")
    with pytest.raises(leat.errors.InvalidError, match="one at a time"):
        leat.plan(example / "job.toml", **files, launch="sbatch", explain=CONFIG)


# ---- a finished run ----


def test_a_finished_run_stands_beside_its_prediction_and_teaches(plan, example):  # noqa: F811
    answer = json.loads(plan("--compare", example / "run.json", "--json").stdout)
    rows = {row["what"]: row for row in answer["compared"]}
    record = records(plan("--all", "--json"))[CONFIG]
    assert answer["config"] == CONFIG
    assert rows["time"]["predicted"]["mean"] == pytest.approx(record["time_s"]["mean"], rel=1e-4)
    assert rows["money"]["measured"] == 293.6
    assert rows["time"]["inside"]
    assert not rows["start"]["inside"]
    for what in ("time", "money", "speed", "checkpoint", "start"):
        before = abs(rows[what]["predicted"]["mean"] - rows[what]["measured"])
        assert abs(rows[what]["refitted"]["mean"] - rows[what]["measured"]) < before
    # The lines it gives are measurements that another plan reads.
    more = example / "more.csv"
    more.write_text(answer["measurements"])
    taught = records(plan("--all", "--json", "-m", more))[CONFIG]
    assert record["time_s"]["mean"] < taught["time_s"]["mean"] < rows["time"]["measured"]
    assert "outside" in plan("--compare", example / "run.json").stdout


def test_a_run_is_refused_where_it_makes_no_sense(plan, example):  # noqa: F811
    run = example / "run.json"
    good = json.loads(run.read_text())

    def refused(message, option="--compare", **change):
        run.write_text(json.dumps({**good, **change}))
        assert message in plan(option, run, status=2).stderr

    refused("50.0 % of the job is done; only finished runs can be compared", samples=57652515)
    refused("nothing is left to plan", option="--resume")
    refused("'colour' is not known here", colour="red")
    refused("is not TYPE:COUNT:KIND:REGION[:PATH]", option="--resume", config="p3.16xlarge:1")
    refused("the catalog has no such machines there", option="--resume", config="p9:1:on-demand:us-east-1:disk")
    refused("the job has no such data path", option="--resume", config="p3.16xlarge:1:on-demand:us-east-1:tape")
    refused("both given", step_s=0.4)
    refused("'elapsed_s' must be a number", elapsed_s="long")
    half = {"samples": good["samples"] // 2, "elapsed_s": good["elapsed_s"] / 2}  # 2674 samples/s in the mean
    for option, part in (("--resume", half), ("--compare", {})):
        for speed in (1e12, 1e6, 100):
            refused("samples/s", option=option, samples_per_s=speed, **part)
        refused("samples/s", option=option, samples_per_s=None, step_s=1e-6, **part)
    half = {"samples": 0, "elapsed_s": 0}
    refused("make a step of", option="--resume", samples_per_s=1e12, **half)
    refused("machine 1 of 'lives' needs hours", lives=[{"hours": 3}])
    refused("'usd' must be a number from 0", usd=-1)
    run.write_text(json.dumps(good))
    assert "--compare cannot be combined" in plan("--compare", run, "--all", status=2).stderr
    assert "--resume does not belong" in plan("fit", example / "machines.csv", "--resume", run, status=2).stderr


# ---- the rest of a run ----


@pytest.fixture
def half(example):  # noqa: F811
    """A transient run at its half, with many revocations."""
    path = example / "half.json"
    path.write_text(
        json.dumps(
            {
                "config": "p3.16xlarge:1:transient:us-east-1:disk",
                "samples": 57652515,
                "elapsed_s": 36000,
                "usd": 70,
                "lives": [{"hours": h, "how": "taken"} for h in (0.4, 1.1, 0.9, 2.4, 3.1)]
                + [{"hours": 2.1, "how": "running"}],
            }
        )
    )
    return path


def test_the_rest_of_a_run_is_planned_from_where_it_stands(plan, half):  # noqa: F811
    name = "p3.16xlarge:1:transient:us-east-1:disk"
    whole = records(plan("--all", "--json"))
    done = plan("--all", "--json", "--resume", half, "--deadline", "20h", "--budget", "200usd")
    answer = json.loads(done.stdout)
    rest = records(done)
    assert answer["options"]["deadline_s"] == 10 * 3600
    assert answer["options"]["budget_usd"] == 130
    on_demand = "p3.16xlarge:1:on-demand:us-east-1:disk"
    # Half the work; another configuration starts and restores, the one that runs does neither.
    half_s = whole[on_demand]["time_s"]["mean"] / 2
    assert rest[on_demand]["time_s"]["mean"] == pytest.approx(half_s, rel=0.01)
    lines = terms(plan("explain", name, "--resume", half, "--json"))
    assert lines["time: start"]["value"] == 0
    assert lines["done already"]["value"] == pytest.approx(57652515, rel=1e-5)
    assert "moving: restoring a checkpoint" in terms(plan("explain", on_demand, "--resume", half, "--json"))
    # Five taken where the table foretold two: more revocations an hour than it said.
    before = whole[name]["revocations"] / whole[name]["time_s"]["mean"]
    fresh = terms(plan("explain", name, "--json"))
    assert "5 taken where" in lines["revocations"]["source"]
    assert lines["by hazard"]["value"] < fresh["by hazard"]["value"]
    assert before > 0
    assert any("planned from where" in note for note in answer["notes"])
    assert any(note.startswith(("stay with", "move to")) for note in answer["notes"])


def test_the_speed_of_the_run_itself_replaces_what_was_measured_before(plan, half):  # noqa: F811
    run = json.loads(half.read_text())
    half.write_text(json.dumps({**run, "samples_per_s": 2000}))
    line = terms(plan("explain", run["config"], "--resume", half, "--json"))["speed of the GPUs"]
    assert line["value"] == pytest.approx(2000)
    assert "half.json" in line["source"]


def test_limits_that_are_spent_are_refused(plan, half):  # noqa: F811
    assert "has taken 10 h already" in plan("--resume", half, "--deadline", "9h", status=2).stderr
    assert "has cost 70.00 already" in plan("--resume", half, "--budget", "60usd", status=2).stderr
    run = json.loads(half.read_text())
    del run["usd"]
    half.write_text(json.dumps(run))
    assert "does not say what the run has cost" in plan("--resume", half, "--budget", "60usd", status=2).stderr


def test_python_resumes_and_compares_dicts(example, half, plan):  # noqa: F811
    import leat

    files = {
        "catalog": example / "catalog.csv",
        "measurements": example / "speeds.csv",
        "revocations": example / "lifetimes.csv",
    }
    run = json.loads(half.read_text())
    mine = leat.plan(example / "job.toml", **files, resume=run, all=True)
    theirs = json.loads(plan("--all", "--json", "--resume", half).stdout)
    assert [r["usd"] for r in mine["records"]] == [r["usd"] for r in theirs["records"]]
    compared = leat.plan(example / "job.toml", **files, compare=json.loads((example / "run.json").read_text()))
    assert compared["config"] == CONFIG
    with pytest.raises(leat.errors.InvalidError, match="resume and compare"):
        leat.plan(example / "job.toml", **files, resume=run, compare=run)


# ---- lifetimes ----


def test_fit_makes_a_table_of_lifetimes_that_plans_read(run_leat, example, plan):  # noqa: F811
    done = run_leat("plan", "fit", example / "machines.csv", status=0)
    assert "# V100 in us-east-1: 6 of 9 machines taken" in done.stdout
    table = example / "fitted.csv"
    table.write_text(done.stdout)
    name = "p3.2xlarge:4:transient:us-east-1:disk"
    base = arguments(example, **{"--revocations": None})
    by_table = run_leat("plan", *base, "--all", "--json", "--revocations", table, status=0)
    by_machines = run_leat("plan", *base, "--all", "--json", "--revocations", example / "machines.csv", status=0)
    assert records(by_table)[name]["usd"]["mean"] == pytest.approx(records(by_machines)[name]["usd"]["mean"], rel=1e-3)
    answer = json.loads(run_leat("plan", "fit", example / "machines.csv", "--json", status=0).stdout)
    assert answer["lifetimes"][0]["events"] == 6
    assert (
        "cannot predict rows" in run_leat("plan", "fit", example / "machines.csv", "--predict", table, status=2).stderr
    )


def test_small_samples_widen_the_interval(run_leat, example):  # noqa: F811
    name = "p3.2xlarge:4:transient:us-east-1:disk"
    base = arguments(example, **{"--revocations": None})

    def width(events):
        table = example / "events.csv"
        table.write_text(f"accelerator,region,age_h,probability,events\nV100,*,0,0,{events}\nV100,*,24,0.6,\n")
        usd = records(run_leat("plan", *base, "--all", "--json", "--revocations", table, status=0))[name]["usd"]
        return (usd["hi"] - usd["lo"]) / usd["mean"], usd["mean"]

    exact, mean = width("")
    many, _ = width(1000)
    few, same = width(1)
    assert exact < many
    assert exact < few
    assert same == mean


def test_bands_of_types_are_lifetimes(run_leat, example):  # noqa: F811
    base = arguments(example, **{"--revocations": None})
    done = run_leat("plan", *base, "--all", "--json", "--revocations", example / "bands.csv", status=0)
    often, seldom = (records(done)[f"p3.{size}:1:transient:us-east-1:disk"] for size in ("2xlarge", "16xlarge"))
    assert often["revocations"] / often["time_s"]["mean"] > 5 * seldom["revocations"] / seldom["time_s"]["mean"]


# ---- egress ----


def test_data_elsewhere_costs_what_the_pair_of_regions_costs(run_leat, example, plan):  # noqa: F811
    prices = example / "egress.csv"
    near = records(plan("--all", "--json", "--egress", prices, "--set", "data.region=us-east-1"))
    bare = records(plan("--all", "--json"))
    assert near[CONFIG]["usd"] == bare[CONFIG]["usd"]
    edit(prices, "us-east-1,*,0.05", "eu-west-1,*,0.05")
    far = json.loads(plan("--all", "--json", "--egress", prices, "--set", "data.region=eu-west-1").stdout)
    mine = {r["config"]: r for r in far["records"]}
    assert mine[CONFIG]["usd"]["mean"] - bare[CONFIG]["usd"]["mean"] == pytest.approx(147 * 0.05, rel=1e-3)
    assert any("data.region" in note for note in far["notes"])
    # Not known is left out, never free.
    assert "egress from asia to us-east-1 is not known" in plan("--set", "data.region=asia", status=2).stderr
    edit(example / "job.toml", 'cache = "180GB"', 'cache = "180GB"\nusd_per_egress_gb = 0.02')
    paid = json.loads(plan("--all", "--json", "--set", "data.region=asia").stdout)
    assert {r["path"] for r in paid["records"]} == {"disk"}
    assert any("[path.memory]" in reason for reason in paid["left_out"])
    assert any(
        "not where the data lies" in note for note in json.loads(plan("--json", "--egress", prices).stdout)["notes"]
    )


# ---- several types by turns ----


def test_uniform_progress_over_types_costs_less_than_over_one(run_leat, example):  # noqa: F811
    """Two types whose machines come and go in opposite ticks: together there is always one."""
    table = ["accelerator,type,region,file"]
    for k, name in enumerate(("p3.8xlarge", "p3.16xlarge")):
        ticks = [int((i // 6 + k) % 2) for i in range(720)]
        (example / f"{name}.json").write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": ticks}))
        table.append(f"V100,{name},us-east-1,{name}.json")
    (example / "types.csv").write_text("\n".join(table) + "\n")
    done = run_leat(
        "plan", *arguments(example, **{"--revocations": None}), "--traces", example / "types.csv",
        "--deadline", "16h", "--all", "--json", status=0,
    )  # fmt: skip
    found = records(done)
    alone = found["p3.16xlarge:1:uniform:us-east-1:disk"]
    both = found["p3.16xlarge:1:flexible:us-east-1:disk"]
    assert both["usd"]["mean"] < 0.8 * alone["usd"]["mean"]
    assert both["risk_time_s"] <= 16 * 3600
    assert "p3.2xlarge:1:flexible:us-east-1:disk" not in found  # nothing else has one GPU


def test_another_type_works_at_its_own_speed(run_leat, example):  # noqa: F811
    """Only K80s are available: a job planned for V100s takes as long on them as K80s do."""
    for name, up in (("k80", 1), ("v100", 0)):
        (example / f"{name}.json").write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [up] * 2000}))
    (example / "types.csv").write_text("accelerator,region,file\nK80,us-east-1,k80.json\nV100,us-east-1,v100.json\n")
    found = records(
        run_leat(
            "plan", *arguments(example, **{"--revocations": None}), "--traces", example / "types.csv",
            "--deadline", "3000h", "--max-nodes", "1", "--all", "--json", status=0,
        )
    )  # fmt: skip
    own = found["p2.xlarge:1:transient:us-east-1:disk"]["time_s"]["mean"]
    fast = found["p3.2xlarge:1:on-demand:us-east-1:disk"]["time_s"]["mean"]
    mine = found["p3.2xlarge:1:flexible:us-east-1:disk"]["time_s"]["mean"]
    assert own > 3 * fast
    assert mine == pytest.approx(own, rel=0.03)
