"""Jobs of one machine that ask for the same samples decode them once, get the bytes they would get alone, and never wait
for each other."""

import json
import signal
import subprocess

import pytest
from loading import PYTHON_BUILD, RANK, SLOW, Rank, import_leat, make_images, pack, warm_python

BATCH = 8


def settings(data, **more):
    return {"url": data.url, "batch_size": BATCH, "seed": 5, "shuffle": True, "timeout": 60 * SLOW, **more}


def start(runtime, data, fields=None, state=None, epochs=1, go=False, **loader):
    """A job: a rank in a process of its own. With `go` it waits for a word before each batch but the first."""
    job = {name: value for name, value in (("fields", fields), ("state", state), ("go", go)) if value}
    job |= {"loader": settings(data, **loader), "epochs": epochs}
    env = {**runtime.env, "PYTHONPATH": str(PYTHON_BUILD / "python")}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return Rank(subprocess.Popen(warm_python(RANK, json.dumps(job)), env=env, bufsize=0, **pipes))


def let_go(jobs):
    """From now on they wait for no word."""
    for job in jobs:
        job.process.stdin.write(b"\n" * 1000)


def start_together(runtime, data, each, **more):
    """A job for each of several settings; all are open before any of them reads."""
    jobs = [start(runtime, data, go=True, **{**more, **one}) for one in each]
    for job in jobs:
        assert job.read()["open"]
    return jobs


def read_together(runtime, data, each, **more):
    """What jobs print that begin to read at the same moment, each with settings of its own."""
    jobs = start_together(runtime, data, each, **more)
    let_go(jobs)
    return [job.finish() for job in jobs]


def batches(lines):
    return [line for line in lines if "x" in line]


def pixels(lines):
    return [(line["epoch"], line["index"], line["x"]) for line in batches(lines)]


def stats(lines):
    return lines[-1]["stats"]


def decoded_by(done):
    return sum(stats(lines)["samples_decoded"] for lines in done)


def shared_by(done):
    return sum(stats(lines)["samples_shared"] for lines in done)


KNOWN = {}


def alone(runtime, data, **more):
    """What a loader gets that shares with nobody: always the same, so it is looked at once."""
    which = json.dumps([data.url, more], sort_keys=True)
    if which not in KNOWN:
        KNOWN[which] = start(runtime, data, share="off", **more).finish()
        assert stats(KNOWN[which])["samples_shared"] == 0
        runtime.wait_gone()
    return KNOWN[which]


def advance(rank, count):
    """This many batches of a rank that waits for a word before each but the first."""
    lines = []
    while len(lines) < count:
        line = rank.read()
        if "x" in line:
            lines.append(line)
            rank.go()
    return lines


def test_four_jobs_decode_every_sample_once_and_get_what_each_would_alone(runtime, images):
    expected = alone(runtime, images, epochs=3)
    done = read_together(runtime, images, [{}] * 4, epochs=3)
    for lines in done:
        assert pixels(lines) == pixels(expected)
    # 1.000 on a machine that has nothing else to do (bench_share.py); who is kept waiting for seconds decodes some alone.
    assert decoded_by(done) <= 1.25 * stats(expected)["samples_decoded"]


OTHERS = [{"seed": 6}, {"window": 3}, {"batch_size": 4}, {"share": "off"}, {"shuffle": False}]
OTHERS += [{"rank": 1, "world_size": 2}, {"fields": ["whole", "index"]}]


def test_jobs_that_ask_for_something_else_share_nothing(runtime, images):
    """None of them with any other, all at the same time."""
    for lines, other in zip(read_together(runtime, images, [{}, *OTHERS]), [{}, *OTHERS]):
        assert stats(lines)["samples_shared"] == 0, other


def test_outputs_that_need_no_decoding_may_differ(runtime, images):
    done = read_together(runtime, images, [{"fields": ["x", "index"]}, {"fields": ["key", "x", "y", "index"]}])
    assert pixels(done[0]) == pixels(done[1])
    assert shared_by(done) >= 0.9 * images.samples


def test_one_that_joins_late_makes_its_own_until_it_meets_the_others(runtime, images):
    expected = alone(runtime, images, epochs=3)
    first = start(runtime, images, epochs=2, go=True)
    lines = advance(first, 12)
    second = start(runtime, images, epochs=2, go=True)
    late = advance(second, 20)
    lines += advance(first, 4)
    let_go((first, second))
    late += second.finish()
    lines += first.finish()
    for each in (lines, late):
        assert pixels(each) == pixels(expected)[: len(pixels(each))] and len(pixels(each)) == 50
    assert stats(late)["samples_decoded"] >= 5 * BATCH  # beyond what the first one had kept for it
    assert shared_by((late, lines)) >= images.samples


@pytest.mark.parametrize("how", ["stopped", "killed", "slow", "left"])
def test_nobody_waits_for_one_that_is(runtime, images, how):
    expected = alone(runtime, images, epochs=3)
    jobs = [start(runtime, images, epochs=3, go=True) for _ in range(3)]
    # A signal that stops a process is not handed on to one that was forked: see warm.py.
    last = runtime.start_rank(settings(images), epochs=3, go=True) if how == "stopped" else jobs.pop()
    advance(last, 3)
    for job in jobs:
        advance(job, 2)
    if how == "stopped":
        last.kill(signal.SIGSTOP)
    elif how == "killed":
        last.kill()
    elif how == "left":
        last.kill(signal.SIGINT)
    let_go(jobs)
    done = [job.finish() for job in jobs]
    for lines in done:
        assert pixels(lines) == pixels(expected)[2:]
    assert decoded_by(done) <= 1.25 * stats(expected)["samples_decoded"]
    if how == "stopped":
        last.kill(signal.SIGCONT)
    if how in ("stopped", "slow"):  # the others are far ahead, and gone: it makes its own
        let_go([last])
        assert pixels(last.finish()) == pixels(expected)[3:]
    else:
        last.rest()


def test_a_job_that_goes_on_from_a_state_shares_the_rest(runtime, images):
    expected = alone(runtime, images)
    done = read_together(runtime, images, [{}] * 2, state=batches(expected)[9]["state"])
    for lines in done:
        assert pixels(lines) == pixels(expected)[10:]
    # Each was opened at the beginning, too. Alone they would have decoded the rest twice.
    assert decoded_by(done) <= images.samples - 10 * BATCH + 16 * BATCH


def test_a_lost_agent_costs_no_sample_and_sharing_goes_on(runtime, images):
    expected = alone(runtime, images, epochs=3)
    jobs = [start(runtime, images, epochs=3, go=True) for _ in range(3)]
    done = [advance(job, 7) for job in jobs]
    runtime.kill_agents()
    let_go(jobs)
    done = [lines + job.finish() for lines, job in zip(done, jobs)]
    for lines in done:
        assert pixels(lines) == pixels(expected)
    # How much depends on when each of them has noticed; what went before was counted by the agent that is gone.
    assert shared_by(done) >= images.samples // 4


@pytest.mark.parametrize("fields", [["x", "index", "valid"], ["x", "index", "gray", "whole"]], ids="-".join)
def test_jobs_with_draws_of_their_own_decode_every_picture_once(runtime, images, fields):
    each = [{"draw_seed": n} for n in (0, 5, 6)]
    done = read_together(runtime, images, each, epochs=2, fields=fields)
    assert {stats(lines)["shares"] for lines in done} == {"pictures"}
    decoded, taken = decoded_by(done), shared_by(done)
    assert decoded + taken >= 3 * 2 * (images.samples // BATCH * BATCH)  # and what was made ahead
    assert taken >= 1.6 * 2 * images.samples
    for settings_of_one, lines in zip(each, done):
        expected = alone(runtime, images, epochs=2, fields=fields, **settings_of_one)
        for name in ["epoch", *fields]:
            assert [line[name] for line in batches(lines)] == [line[name] for line in batches(expected)]
    assert len({str([line["index"] for line in batches(lines)]) for lines in done}) == 1
    assert len({str(pixels(lines)) for lines in done}) == 3


def test_a_draw_seed_changes_the_draws_alone(runtime, images):
    plain, same, other = [alone(runtime, images, **more) for more in ({}, {"draw_seed": 5}, {"draw_seed": 6})]
    assert pixels(plain) == pixels(same)
    assert pixels(plain) != pixels(other)
    assert [line["index"] for line in batches(plain)] == [line["index"] for line in batches(other)]


def test_what_follows_from_the_crop_is_shared_with_equal_draws_only(runtime, images):
    """A fast decode has another scale for each crop: its pictures cannot be shared bit for bit."""
    fields = ["fast", "index"]
    for job in read_together(runtime, images, [{"draw_seed": 1}, {"draw_seed": 2}], fields=fields):
        assert job[-1]["stats"]["samples_shared"] == 0
        assert job[-1]["stats"]["shares"] == "samples"
    done = read_together(runtime, images, [{"draw_seed": 1}, {"draw_seed": 1}], fields=fields)
    assert shared_by(done) >= 0.9 * images.samples


def test_the_state_carries_the_draw_seed(runtime, images):
    expected = alone(runtime, images, draw_seed=9)
    state = batches(expected)[9]["state"]
    assert state["draw_seed"] == 9 and "draws 1" in state["needs"]
    assert pixels(alone(runtime, images, state=state)) == pixels(expected)[10:]
    assert pixels(alone(runtime, images, state=state, draw_seed=9)) == pixels(expected)[10:]
    for seed in (5, 8):
        refused = start(runtime, images, draw_seed=seed, state=state).finish(status=3)
        assert f"it has draw_seed 9 (here {seed})" in refused[-1]["text"]
    plain = batches(alone(runtime, images))[3]["state"]
    refused = start(runtime, images, draw_seed=9, state=plain).finish(status=3)
    assert "it has draw_seed 5 (here 9)" in refused[-1]["text"]


@pytest.fixture
def torn(leat_bin, tmp_path):
    """60 images, every third of which ends too early: crops of its upper part are as good as ever."""
    from PIL import Image

    known = make_images(tmp_path / "files", 60, sides=(60, 90))
    for i, key in enumerate(sorted(known)):
        path = tmp_path / "files" / key
        with Image.open(path) as image:
            image.save(path, "JPEG")
        if i % 3 == 0:
            path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    return pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "64KiB", known=known)


def test_damage_outside_of_a_crop_hurts_nobody(runtime, torn):
    each = [{"draw_seed": n, "on_error": "skip"} for n in (1, 2)]
    done = read_together(runtime, torn, each)
    valid = [[ok for line in batches(lines) for ok in line["valid"]] for lines in done]
    for one, lines in zip(each, done):
        expected = alone(runtime, torn, **one)
        for name in ("index", "x", "valid"):
            assert [line[name] for line in batches(lines)] == [line[name] for line in batches(expected)]
    assert all(0 < v.count(False) < 20 for v in valid) and valid[0] != valid[1]
    assert shared_by(done) >= 30


@pytest.fixture
def damaged(leat_bin, tmp_path):
    """40 images, one of which is none."""
    known = make_images(tmp_path / "files", 40)
    bad = tmp_path / "files" / sorted(known)[17]
    bad.write_bytes(bad.read_bytes()[:60] + b"no picture" * 20)
    data = pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "16KiB", "--keep-order", known=known)
    data.bad = sorted(known)[17]
    return data


def test_each_job_meets_a_bad_sample_by_its_own_policy(runtime, damaged):
    jobs = start_together(runtime, damaged, [{"on_error": "raise"}, {"on_error": "skip"}], shuffle=False)
    let_go(jobs)
    refused = jobs[0].finish(status=3)
    assert refused[-1]["error"] == "CorruptError"
    assert damaged.bad in refused[-1]["text"]
    assert len(batches(refused)) == 17 // BATCH
    skipped = jobs[1].finish()
    assert stats(skipped)["samples_skipped"] in (1, 2)  # the next epoch is being made already
    valid = [ok for line in batches(skipped) for ok in line["valid"]]
    assert valid.count(False) == 1 and not valid[17]


@pytest.mark.parametrize("draws", [{}, {"draw_seed": 3}], ids=["samples", "pictures"])
def test_what_is_shared_is_within_its_bound_and_gone_in_the_end(runtime, leat_bin, tmp_path, draws):
    """Memory of an eighth of ram=, also when somebody lags by more; and nothing is kept for nobody."""
    leat = import_leat()
    known = make_images(tmp_path / "files", 120)
    data = pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "16KiB", known=known)
    sample = 64 * 64 * 3
    ram = 8 * 40 * sample  # room for 40 samples
    field = {"x": leat.image("png").random_resized_crop(64)}

    def make():
        return leat.Loader(data.url, fields=field, batch_size=4, seed=1, ram=ram, timeout=60, as_numpy=True, **draws)

    with make() as ahead, make() as behind:
        first = next(iter(behind))
        del first
        shared = [ahead.stats()["shared_bytes"] for _ in ahead]
        assert 0 < max(shared) <= 40 * sample
        for _ in range(2):
            count = sum(1 for _ in behind)
            assert count in (29, 30)
        assert behind.stats()["samples_shared"] >= 1


def test_it_can_be_seen_and_refused(runtime, images, leat_bin):
    leat = import_leat()
    with leat.Loader(images.url, fields={"x": leat.image("png").resize((8, 8))}, batch_size=8) as loader:
        list(loader)
        agent = json.loads(
            subprocess.run(
                [leat_bin, "agent", "ls", "--json"], capture_output=True, text=True, check=True, timeout=30
            ).stdout.splitlines()[0]
        )
        assert "samples_shared" in json.dumps(agent)
    with pytest.raises(ValueError, match="share='maybe' is not one of: on off"):
        leat.Loader(images.url, fields={"x": leat.image("png").resize((8, 8))}, batch_size=8, share="maybe")


def test_the_sixty_fifth_loader_makes_its_own_and_the_log_says_so(runtime, images, lt):
    """Who waits for a sample is a bit of a word."""
    fields = {"x": lt.image("png").resize((8, 8))}
    loaders = [lt.Loader(images.url, fields=fields, batch_size=2, seed=5, as_numpy=True) for _ in range(65)]
    first = [next(iter(loader))[0] for loader in loaders]
    shares = [loader.stats()["shares"] for loader in loaders]
    assert sorted(shares) == ["nothing"] + ["samples"] * 64
    assert all(x.tobytes() == first[0].tobytes() for x in first)
    assert runtime.log().count("a loader makes its samples alone: 64 loaders share their samples already") == 1
    for loader in loaders:
        loader.close()
