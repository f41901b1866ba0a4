"""Machines as network namespaces with a line between them whose rate is known: a slow one is what a step waits for, a fast one is
not, and what was measured of it is near its rate. And the two figures of a network, of other clusters each, that must not be mixed up.
"""

import json
import os
import subprocess
import time

import pytest
from loading import SLOW, free_port, warm_python
from profiling import TRAIN
from test_whatif import RUN, report_of

pytestmark = pytest.mark.python_only

torch = pytest.importorskip("torch")

SLOW_RATE = 80e6 / 8  # bytes per second
WISH = {"width": 10000, "steps": 45, "compute": 0.01}  # 0.88 MB of gradients: 88 ms of such a line


@pytest.fixture
def line():
    """line("80mbit") -> what to put before a command on each of two machines that such a line joins; None: as fast as it gets."""
    names = [f"leat-m{os.getpid()}{side}" for side in "ab"]

    def tell(*command):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            pytest.skip(f"no network namespaces here: {error}")
        if done.returncode:
            pytest.skip(f"no network namespaces with such a line here: {done.stderr.strip()}")

    def make(rate):
        for name in names:
            tell("ip", "netns", "add", name)
        tell("ip", "link", "add", "v0", "netns", names[0], "type", "veth", "peer", "name", "v0", "netns", names[1])
        for side, name in enumerate(names):
            tell("ip", "-n", name, "addr", "add", f"10.97.0.{side + 1}/24", "dev", "v0")
            for device in ("lo", "v0"):
                tell("ip", "-n", name, "link", "set", device, "up")
            if rate:
                limit = ["rate", rate, "burst", "64kb", "latency", "400ms"]
                tell("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "v0", "root", "tbf", *limit)
        return [["ip", "netns", "exec", name] for name in names]

    yield make
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def profiled(leat_bin, clean_env, folder, wish, *options, inside=((), ()), address="127.0.0.1", device="lo"):
    """`leat profile` around torchrun on both machines -> what each said, and the report of the first one."""
    env = {**clean_env, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": device, "TP_SOCKET_IFNAME": device}
    port = free_port() if device == "lo" else 29500
    running = []
    for node, prefix in enumerate(inside):
        launch = ["-m", "torch.distributed.run", "--nnodes", 2, "--node-rank", node, "--nproc-per-node", 1]
        launch += ["--master-addr", address, "--master-port", port, "--no-python"]
        command = [*prefix, leat_bin, "profile", *options, "-o", folder / f"{node}.json", "--"]
        command += [*warm_python(*launch), *warm_python(TRAIN, json.dumps(wish))]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(command, env=env, **pipes))
    said = [process.communicate(timeout=240 * SLOW)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    return said, json.loads((folder / "0.json").read_text())


def test_ranks_of_two_machines_are_in_one_report(leat_bin, clean_env, tmp_path):
    said, report = profiled(leat_bin, clean_env, tmp_path, {"late": 0.05, "steps": 40})
    assert (report["runs"][0]["nodes"], report["runs"][0]["gpus"]) == (2, 1)
    assert {(rank["rank"], rank["node"]) for rank in report["ranks"]} == {(0, 0), (1, 1)}
    assert "rank 1 holds the others up" in said[0]
    assert "the report where rank 0 runs has those of all" in said[1]
    assert {step["rank"] for step in report["steps"]} == {0, 1}


@pytest.fixture
def over(leat_bin, clean_env, tmp_path, line):
    """over("80mbit") -> what was said, and the report, of a training whose gradients go over such a line."""

    def run(rate):
        where = {"inside": line(rate), "address": "10.97.0.1", "device": "v0"}
        said, report = profiled(leat_bin, clean_env, tmp_path, WISH, "--time", "5s", **where)
        return said[0], report

    return run


def test_a_slow_line_comes_first_and_its_rate_is_found(over):
    """A line never takes less than its rate allows, and all that was measured of it no more than all that there was."""
    began = time.monotonic()
    said, report = over("80mbit")
    took = time.monotonic() - began
    assert "leat: communication: " in said, said
    run = report["runs"][0]
    assert (run["nodes"], run["gpus"]) == (2, 1)
    assert run["parts_s"]["communication"] > 0.5 * run["gradient_bytes"] / SLOW_RATE
    links = [link for link in report["links"] if link["scope"] == "network"]
    assert {link["scope"] for link in report["links"]} == {"network"}
    assert {link["ranks"] for link in links} == {2}
    seconds = {link["bytes"]: link["s"][0] for link in links}  # each of two ranks sends as much as there is
    assert all(seconds[size] > 0.9 * size / SLOW_RATE for size in (1 << 20, 1 << 23)), seconds
    assert sum(seconds.values()) < took
    # One rank less is neither an interconnect nor a network of the same size.
    assert not {"interconnect", "network"} & {stall["cause"] for stall in report["stalls"]}


@pytest.mark.long
def test_a_fast_line_is_not_what_a_slow_one_is(over):
    _, report = over(None)
    run = report["runs"][0]
    assert run["parts_s"]["communication"] < 0.5 * run["gradient_bytes"] / SLOW_RATE
    seconds = {link["bytes"]: link["s"][0] for link in report["links"] if link["scope"] == "network"}
    assert seconds[1 << 23] < 0.5 * (1 << 23) / SLOW_RATE


def cluster(nodes, gpus, step_s, mode="synthetic"):
    """A report of this many machines and ranks."""
    run = {**RUN, "gpus": gpus, "nodes": nodes, "step_s": [step_s, 0.98 * step_s, 1.02 * step_s]}
    return report_of(*({**run, "mode": each} for each in ("observed", mode)))


@pytest.mark.parametrize(
    ("one", "other", "stall"),
    [
        ((1, 8, 0.10), (2, 4, 0.13), "stall: network"),
        ((1, 8, 0.10), (2, 8, 0.15), "stall: machines"),
        ((2, 8, 0.15), (1, 8, 0.10), "stall: machines"),
        ((1, 2, 0.10), (2, 1, 0.13), "stall: network"),
        ((1, 1, 0.10), (2, 1, 0.13), "stall: machines"),
        ((1, 8, 0.10), (2, 2, 0.13), None),  # neither the same ranks nor the same machines
        ((1, 4, 0.10), (1, 8, 0.13), None),
    ],
)
def test_what_a_network_costs_and_what_machines_add_have_names_of_their_own(run_leat, tmp_path, one, other, stall):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, (nodes, gpus, step_s) in zip(paths, (one, other), strict=True):
        path.write_text(json.dumps(cluster(nodes, gpus, step_s)))
    done = run_leat("profile", "diff", "--json", *paths)
    if stall is None:
        assert done.returncode != 0
        assert "cannot be compared: 'gpus' is" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {"step, synthetic", stall}
    fewer, more = ("a_s", "b_s") if one[0] < other[0] else ("b_s", "a_s")
    assert rows[stall][fewer] == [0, 0, 0]
    assert rows[stall][more][0] == pytest.approx(abs(one[2] - other[2]))
    assert rows[stall]["beyond"] is True


def test_clusters_without_a_synthetic_run_are_not_compared(run_leat, tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, nodes in zip(paths, (1, 2), strict=True):
        path.write_text(json.dumps(cluster(nodes, 1, 0.1, "cached")))
    done = run_leat("profile", "diff", *paths)
    assert done.returncode != 0
    assert "a.json has no synthetic run (--time)" in done.stderr
