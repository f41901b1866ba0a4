"""The batch script of docs/howto/slurm.md, under a Slurm of two nodes on this machine."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import PRELOAD, SANITIZE
from loading import PYTHON_BUILD, SLOW, free_port, wait_until
from machines import PROGRAM, keys_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(SANITIZE == "thread" or bool(PRELOAD), reason="Slurm hands on no preloaded library"),
]

# torchrun on a node whose name is no host's, with an agent of its own as on a machine of its own
TORCHRUN = """#!/bin/bash
export LEAT_RUNTIME_DIR={runtimes}/$SLURM_NODEID GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
args=("${{@/#n0:29500/127.0.0.1:{port}}}")
args=("${{args[@]/#8/1}}")
exec {python} -m torch.distributed.run "${{args[@]}}"
"""


class Slurm:
    """slurmctld, munged and a slurmd for each of two nodes."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="leat-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "key").write_bytes(os.urandom(128))
        (self.folder / "key").chmod(0o400)
        host = socket.gethostname().partition(".")[0]
        lines = [
            "ClusterName=box", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={free_port()}", "AuthType=auth/munge",
            f"AuthInfo=socket={self.folder}/munge/socket", "CredType=cred/munge", "SlurmUser=root", "SlurmdUser=root",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool/%n",
            f"SlurmctldPidFile={self.folder}/ctld.pid", f"SlurmdPidFile={self.folder}/%n.pid", "ReturnToService=2",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            *(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 RealMemory=400" for i in range(2)),
            "PartitionName=all Nodes=n[0-1] Default=YES MaxTime=INFINITE State=UP",
        ]  # fmt: skip
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        self.env = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.started = []

    def start(self):
        conf = str(self.folder / "slurm.conf")
        munge = self.folder / "munge" / "socket"
        self.run("munged", "--force", "--foreground", f"--key-file={self.folder}/key", f"--socket={munge}",
                 f"--pid-file={self.folder}/munge/pid", f"--seed-file={self.folder}/munge/seed")  # fmt: skip
        wait_until(munge.exists, 20 * SLOW, "munged to listen")
        self.run("slurmctld", "-D", "-f", conf)
        for node in ("n0", "n1"):
            self.run("slurmd", "-D", "-N", node, "-f", conf)
        wait_until(lambda: self.ask("sinfo", "-h", "-o", "%t %D") == "idle 2", 60 * SLOW, "two nodes to be idle")
        return self

    def run(self, *command):
        with open(self.folder / f"{command[0]}.log", "ab") as log:
            self.started.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log))

    def ask(self, *command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60 * SLOW, check=False)
        return done.stdout.strip()

    def close(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def slurm():
    if os.geteuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "sbatch"))):
        pytest.skip("needs root, and Debian's slurmctld, slurmd, slurm-client and munge")
    box = Slurm()
    try:
        yield box.start()
    finally:
        box.close()


def test_the_batch_script_of_the_documentation_runs(slurm, bucket, runtime, tmp_path):
    url, keys, server, packed = bucket()
    text = (ROOT / "docs" / "howto" / "slurm.md").read_text()
    script = re.search(r"```sh\n(#!/bin/bash\n.*?)```", text, re.S).group(1)
    for name, value in {"nodes": "2", "cpus-per-task": "1", "mem": "100M"}.items():
        script = re.sub(rf"--{name}=\S+", f"--{name}={value}", script)
    script = re.sub(r"#SBATCH --gpus.*\n|export (AWS_PROFILE|LEAT_RAM|LEAT_CACHE\w*)=.*\n", "", script)
    (tmp_path / "train.sbatch").write_text(script)
    job = json.dumps({"url": url})
    (tmp_path / "train.py").write_text(
        f"import runpy, sys\nsys.path.insert(0, {str(PROGRAM.parent)!r})\nsys.argv = ['x', {job!r}]\n"
        f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n"
    )
    runtimes = Path(tempfile.mkdtemp(prefix="leat-m-", dir="/tmp"))
    (tmp_path / "torchrun").write_text(TORCHRUN.format(runtimes=runtimes, port=free_port(), python=sys.executable))
    (tmp_path / "torchrun").chmod(0o755)
    env = {**slurm.env, **runtime.env, **keys, "PYTHONPATH": str(PYTHON_BUILD / "python")}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    try:
        command = ["sbatch", "--wait", "--output", tmp_path / "out", tmp_path / "train.sbatch"]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150 * SLOW, check=False
        )
        out = (tmp_path / "out").read_text() if (tmp_path / "out").exists() else ""
        assert done.returncode == 0, done.stderr + out[-3000:]
        lines = [json.loads(line) for line in out.splitlines() if '"keys"' in line]  # srun cuts longer ones in pieces
        assert sorted(keys_of(lines)) == sorted(packed.known)
        assert server.stats()["bytes_sent"] <= 1.02 * packed.bytes + 2 * 8192  # once for both nodes
        wait_until(lambda: not list(runtimes.glob("*/*.sock*")), 20 * SLOW, "the agents to end with the job")
    finally:
        shutil.rmtree(runtimes, ignore_errors=True)
