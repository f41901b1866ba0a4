"""Users' own programs: plain loops, torchrun, mp.spawn, FSDP, Lightning, accelerate, Hugging Face's Trainer, DataLoader, …

Each is a small real training in tests/py/programs that writes down every sample it trained on. What is promised: in
each epoch every sample exactly once over all ranks, in the right number of steps, across checkpoints as well.
"""

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from loading import PYTHON_BUILD, free_port, make_images, pack, torchrun, wait_until, warm_python

PROGRAMS = Path(__file__).with_name("programs")
SAMPLES = 96
STEPS = 6  # of 16 samples
VAL_SAMPLES = 40

pytestmark = pytest.mark.python_only


@pytest.fixture(scope="module")
def val(leat_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("val")
    known = make_images(folder / "files", VAL_SAMPLES, seed=2, sides=(16, 17))
    return pack(leat_bin, folder / "files", folder / "ds", known=known)


class Program:
    """Runs programs and knows what they have trained on."""

    def __init__(self, runtime, folder):
        self.folder = folder
        folder.mkdir()
        self.env = {
            **runtime.env,
            "PYTHONPATH": f"{PYTHON_BUILD / 'python'}:{PROGRAMS}",
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "HF_HUB_OFFLINE": "1",
            "SEEN": str(folder),
        }

    def run(self, program, *args, ranks=None):
        command = [PROGRAMS / program, *args]
        command = torchrun(*command, ranks=ranks, warm=True) if ranks else warm_python(*command)
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stderr[-6000:]
        return done.stdout

    def batches(self):
        """{(phase, epoch): [(rank, numbers), …]}, and forgets them."""
        found = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for line in map(json.loads, path.read_text().splitlines()):
                found.setdefault((line["phase"], line["epoch"]), []).append((line["rank"], line["index"]))
            path.unlink()
        return found


@pytest.fixture
def program(runtime, tmp_path):
    return Program(runtime, tmp_path / "seen")


def numbers_of(*batches):
    return Counter(number for batch in batches for _rank, index in batch for number in index)


def assert_once(batches, steps=STEPS, ranks=1, samples=SAMPLES):
    """Every sample once, in as many steps on every rank."""
    assert Counter(rank for rank, _ in batches) == dict.fromkeys(range(ranks), steps)
    seen = numbers_of(batches)
    wrong = {n: seen[n] for n in range(samples) if seen[n] != 1}
    assert not wrong, f"samples that were not seen once: {wrong}"
    assert len(seen) == samples


def assert_two_epochs_of_two_ranks(seen):
    assert sorted(seen) == [("train", 0), ("train", 1)]
    for batches in seen.values():
        assert_once(batches, ranks=2)


def test_plain_loop_and_its_second_run_see_every_sample_once(program, squares, tmp_path):
    state = tmp_path / "state.json"
    program.run("plain.py", squares.url, 3, state, STEPS + 2)
    before = program.batches()
    assert_once(before[("train", 0)])
    assert len(before[("train", 1)]) == 2
    program.run("plain.py", squares.url, 3, state)
    after = program.batches()
    assert sorted(after) == [("train", 1), ("train", 2)]
    assert_once(before[("train", 1)] + after[("train", 1)])
    assert_once(after[("train", 2)])


def test_torchrun_with_two_ranks_and_a_second_run_with_one(program, squares, tmp_path):
    state = tmp_path / "state.json"
    program.run("plain.py", squares.url, 2, state, 4, ranks=2)
    before = program.batches()
    assert Counter(rank for rank, _ in before[("train", 0)]) == {0: 4, 1: 4}
    program.run("plain.py", squares.url, 2, state)
    after = program.batches()
    seen = numbers_of(before[("train", 0)], after[("train", 0)])
    assert set(seen.values()) == {1} and len(seen) == SAMPLES
    assert_once(after[("train", 1)])


@pytest.mark.parametrize(
    ("where", "method"),
    [
        pytest.param("rank", "spawn", marks=pytest.mark.long),
        ("parent", "spawn"),
        ("parent", "fork"),
        pytest.param("parent", "forkserver", marks=pytest.mark.long),
    ],
)
def test_processes_whose_loader_is_older_than_the_process_group(program, squares, where, method):
    program.run("spawn.py", where, method, squares.url, 2, free_port())
    assert_two_epochs_of_two_ranks(program.batches())


def test_fsdp_with_two_ranks(program, squares):
    program.run("fsdp.py", squares.url, 2, ranks=2)
    assert_two_epochs_of_two_ranks(program.batches())


def test_batches_kept_for_accumulation_and_a_validation_beside_it(program, squares, val):
    said = program.run("accumulate.py", squares.url, val.url, 2).splitlines()
    assert len(said) == 1, "said once"
    assert "slots" in said[0]
    seen = program.batches()
    for epoch in range(2):
        assert_once(seen[("train", epoch)])
        assert_once(seen[("val", epoch)], steps=5, samples=VAL_SAMPLES)
        glances = [index for _, index in seen[("glance", epoch)]]
        assert len(glances) == 4
        assert glances[:2] == glances[2:] == [index for _, index in seen[("val", epoch)]][:2]


def test_lightning_trains_and_validates_whole_epochs_and_resumes_within_one(program, squares, val, tmp_path):
    program.run("lightning_fit.py", squares.url, val.url, tmp_path, 1)
    seen = program.batches()
    for epoch in range(3):
        limited = seen[("limited", epoch)]
        assert len(limited) == 4
        assert set(numbers_of(limited).values()) == {1}, "no sample twice in an epoch"
        assert_once(seen[("limited val", epoch)], steps=5, samples=VAL_SAMPLES)
    assert len({tuple(seen[("limited", epoch)][0][1]) for epoch in range(3)}) == 3, (
        "every epoch has an order of its own"
    )
    assert len(seen[("limited sanity", 0)]) == 2
    assert_once(seen[("before", 0)])
    assert_once(seen[("before", 1)] + seen[("after", 1)])
    assert len(seen[("before", 1)]) == 2
    assert_once(seen[("after", 2)])
    for epoch in (1, 2):
        assert_once(seen[("after val", epoch)], steps=5, samples=VAL_SAMPLES)


def test_lightnings_own_launcher_with_two_ranks(program, squares, val, tmp_path):
    program.run("lightning_fit.py", squares.url, val.url, tmp_path, 2)
    seen = program.batches()
    for epoch in range(2):
        assert_once(seen[("two", epoch)], ranks=2)
        assert_once(seen[("two val", epoch)], steps=5, ranks=2, samples=VAL_SAMPLES)


def test_accelerate_goes_on_in_the_middle_of_an_epoch(program, squares, tmp_path):
    program.run("accelerate_loop.py", squares.url, tmp_path, STEPS + 4)
    before = program.batches()
    program.run("accelerate_loop.py", squares.url, tmp_path)
    after = program.batches()
    ways = ["ahead", "checkpoint", "skip"]
    assert sorted(after) == [(way, 1) for way in ways]
    for way in ways:
        assert_once(before[(way, 0)])
        assert_once(before[(way, 1)] + after[(way, 1)])


def test_hugging_face_trainer_resumes_within_an_epoch(program, squares, val, tmp_path):
    program.run("hf_trainer.py", squares.url, val.url, tmp_path / "out")
    seen = program.batches()
    whole = [seen[("whole", epoch)] for epoch in range(3)]
    for epoch, batches in enumerate(whole):
        assert_once(batches)
        assert_once(seen[("whole val", epoch)], steps=5, samples=VAL_SAMPLES)
    after = [batch for epoch in (1, 2) for batch in seen[("after", epoch)]]
    assert after == whole[1][2:] + whole[2], "what was not trained on before the checkpoint, and nothing else"


def test_loader_inside_dataloader_gives_every_sample_once_or_says_why_not(program, squares):
    lines = [json.loads(line) for line in program.run("dataloader.py", squares.url).splitlines()]
    *ways, resumed = lines
    assert len(ways) == 2 * (3 * 4 + 4)
    for line in ways:
        way = (line["make"], line["workers"], line["way"])
        works = (line["workers"] == 0 and line["way"] != "samples") or (
            line["workers"] == 1 and line["way"] == "inside"
        )
        if works:
            assert sorted(line["seen"]) == list(range(SAMPLES)), way
        elif line["way"] == "samples":
            assert "batch_size=None" in line["text"] or "expected unspecified" in line["text"], (way, line)
        else:
            assert "Loader" in line["text"] and "num_workers" in line["text"], (way, line)
    once = list(range(SAMPLES))
    assert len(resumed["before"]) == 64
    assert sorted(resumed["before"] + resumed["after"]) == sorted(resumed["then"]) == once


def test_notebook_that_keeps_its_outputs_and_is_interrupted(program, squares, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    said = json.loads(program.run("notebook.py", squares.url, tmp_path / "begun"))
    shown, (begun, interrupted, *_), (numbers, outputs) = said[:10], said[10:-2], said[-2:]
    assert all(text.startswith(("tensor", "array", "Ragged(8")) for text in shown), "and no word about slots"
    assert {begun.strip(), interrupted.strip()} == {"begun", "KeyboardInterrupt"}
    assert json.loads(numbers) == list(range(SAMPLES))
    assert int(outputs) == 11


def test_ctrl_c_ends_a_training_at_once_and_the_next_goes_on(program, squares, runtime, tmp_path):
    state = tmp_path / "state.json"
    command = warm_python(PROGRAMS / "plain.py", squares.url, 1000000)
    process = subprocess.Popen(command, env=program.env, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(program.folder.glob("*.jsonl")), timeout=60, what="the first step")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)  # a training of a million epochs
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in stderr
    runtime.wait_gone()
    program.batches()
    program.run("plain.py", squares.url, 1, state)
    assert_once(program.batches()[("train", 0)])
