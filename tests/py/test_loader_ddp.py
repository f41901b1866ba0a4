"""Real training: two ranks under torchrun, fed by Leat, come to the same losses as plain PyTorch in the same order."""

import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import PRELOAD
from loading import PYTHON_BUILD, SLOW, torchrun

torch = pytest.importorskip("torch")

G = 16
TRAIN = Path(__file__).with_name("ddp_train.py")


def train(runtime, *args):
    env = {
        **runtime.env,
        "PYTHONPATH": str(PYTHON_BUILD / "python"),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    done = subprocess.run(
        torchrun(TRAIN, *args, warm=True),
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120 * SLOW,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(re.search(r"losses (\[.*\])", done.stdout).group(1))


@pytest.mark.skipif(bool(PRELOAD), reason="torchrun's workers do not get the sanitizer's runtime")
def test_two_ranks_under_torchrun_reach_the_losses_of_plain_pytorch(runtime, squares, leat_bin, tmp_path):
    import numpy
    from PIL import Image

    steps = [[], []]
    keys = {}
    for epoch in (0, 1):
        for rank in (0, 1):
            said = subprocess.run(
                [
                    leat_bin,
                    "order",
                    *f"--seed=5 --epoch={epoch} --global-batch={G} --world=2".split(),
                    "--rank",
                    str(rank),
                    "--keys",
                    squares.url,
                ],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            rows = [line.split("\t") for line in said.splitlines() if line[0].isdigit()]
            keys.update({int(row[1]): row[-1] for row in rows})
            numbers = [int(row[1]) for row in rows]
            steps[rank] += [numbers[i : i + G // 2] for i in range(0, len(numbers), G // 2)]
    files = squares.path.parent / "files"
    images = [numpy.asarray(Image.open(io.BytesIO((files / keys[i]).read_bytes()))) for i in range(96)]
    plan = {
        "x": torch.from_numpy(numpy.stack(images)),
        "y": torch.tensor([squares.known[keys[i]] for i in range(96)]),
        "steps": steps,
    }
    torch.save(plan, tmp_path / "plan")
    mine = train(runtime, "leat", squares.url, G)
    plain = train(runtime, "file", tmp_path / "plan", G)
    assert len(mine) == 12
    assert mine == plain
