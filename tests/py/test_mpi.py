"""The line of docs/job.md under a real Open MPI: two nodes, which are this machine twice, share what they fetch."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import PRELOAD, ROOT, SANITIZE
from loading import PYTHON_BUILD, SLOW, free_port
from machines import PROGRAM, keys_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(SANITIZE == "thread" or bool(PRELOAD), reason="mpirun hands on no preloaded library"),
]

# `python` on a node: with an agent of its own, as on a machine of its own, and a file for what it prints
PYTHON = """#!/bin/bash
export LEAT_RUNTIME_DIR=$(sed -n "$((RANK + 1))p" {folder}/runtimes) GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
echo "$OMPI_COMM_WORLD_LOCAL_SIZE of $OMPI_COMM_WORLD_SIZE" > {folder}/size.$RANK
exec {python} {program} '{job}' > {folder}/out.$RANK
"""
REMOTE = """#!/bin/bash
shift
exec bash -c "$*"
"""


def test_the_line_of_the_documentation_runs(bucket, machines, tmp_path):
    if not shutil.which("mpirun"):
        pytest.skip("needs Debian's openmpi-bin")
    url, keys, server, packed = bucket()
    text = (ROOT / "docs" / "job.md").read_text()
    line = re.search(r"```sh\n(mpirun .*?)```", text, re.S).group(1)
    for said, here in {
        "node0:8,node1:8": "127.0.0.1:1,192.0.2.99:1",
        "=node0": "=127.0.0.1",
        "29500": str(free_port()),
    }.items():
        assert said in line
        line = line.replace(said, here)
    both = machines(2)
    (tmp_path / "runtimes").write_text("".join(f"{runtime.folder}\n" for runtime in both.runtimes))
    job = json.dumps({"url": url})
    scripts = {"python": PYTHON.format(folder=tmp_path, python=sys.executable, program=PROGRAM, job=job), "rsh": REMOTE}
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    base = {k: v for k, v in both.runtimes[0].env.items() if k != "LEAT_RUNTIME_DIR"}
    env = {
        **base,
        **keys,
        "PYTHONPATH": str(PYTHON_BUILD / "python"),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    env |= {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": str(tmp_path / "rsh"),
    }
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120 * SLOW, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert [(tmp_path / f"size.{r}").read_text() for r in range(2)] == ["1 of 2\n"] * 2
    lines = [[json.loads(line) for line in (tmp_path / f"out.{r}").read_text().splitlines()] for r in range(2)]
    assert sorted(k for each in lines for k in keys_of(each)) == sorted(packed.known)
    assert server.stats()["bytes_sent"] <= 1.02 * packed.bytes + 2 * 8192  # once for both nodes
    assert all(each[-1]["stats"]["bytes_by_source"]["peer"] > 0 for each in lines)
