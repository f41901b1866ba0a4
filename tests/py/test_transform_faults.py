"""Transforms that raise, hang, fork, exit or crash, and programs that end: one clear error, nothing left behind."""

import gc
import linecache
import os
import re
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import loading
import pytest
import transforms as t
from conftest import PRELOAD
from loading import PYTHON_BUILD, SLOW, numbers, wait_until
from transforms import G

pytestmark = [pytest.mark.usefixtures("worker_env")] if PRELOAD else []


def loader_of(lt, ds, fields=None, **more):
    return t.loader_of(lt, ds, fields, **{"as_dict": True, **more})


def workers_left(group=None):
    """Processes of transforms: of one group, or those that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and (fields[2] == str(group) or (fields[1] == str(os.getpid()) and group is None)):
            found.append(int(entry.name))
    return found


def assert_gone(group):
    """Killed processes need a moment to end."""
    wait_until(lambda: not workers_left(group), 60, "the end of the workers")


def group_of(loader):
    return loader._python._pool._process


def descriptors():
    return sorted(
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_sample_and_shows_the_users_lines(lt, images, workers):
    order = numbers(lt, images.url, seed=3)
    bad = order[3][5]
    key = lt.open(images.url)[bad].key
    with loader_of(lt, images, transform=t.FailsAt([bad]), transform_workers=workers) as loader:
        got = []
        for _ in range(2):  # the loader stands after the last batch it gave
            with pytest.raises(lt.errors.TransformError) as caught:
                for b in loader:
                    got.append(b["i"].tolist())
        assert got == order[:3]
        text = str(caught.value)
        assert text.startswith(f"transform of sample {bad} ({key!r}, epoch 0): BadSample: number {bad} is bad\n")
        assert 'raise BadSample(f"number {index} is bad")' in text and "leat/_worker.py" not in text
        assert isinstance(caught.value.__cause__, t.BadSample) and isinstance(caught.value, lt.Error)
        assert (caught.value.index, caught.value.key, caught.value.epoch) == (bad, key, 0)
        loader.set_epoch(1)
        loader._python.task.transform.indices.clear()
        if workers == 0:
            assert len(list(loader)) == len(loader)


def test_an_error_comes_after_the_batches_before_it(lt, images):
    order = numbers(lt, images.url, seed=3)
    for place in (0, 1, len(order) - 1):
        with loader_of(lt, images, transform=t.FailsAt([order[place][0]])) as loader:
            got = []
            with pytest.raises(lt.errors.TransformError):
                for b in loader:
                    got.append(b["i"].tolist())
            assert got == order[:place]


@pytest.mark.parametrize("workers", [0, 2])
def test_on_error_skip_fills_the_place_from_the_same_batch(lt, images, workers, caplog):
    order = numbers(lt, images.url, seed=3)
    bad = {order[0][0], order[0][7], order[2][G - 1]}
    fields = {"x": lt.image("png").resize((16, 16)), "i": lt.index(), "v": lt.valid(), "key": lt.key()}
    with loader_of(lt, images, fields) as plain:
        pictures = {int(i): x.tobytes() for b in plain for i, x in zip(b["i"], b["x"])}
    settings = {"on_error": "skip", "transform_workers": workers}
    with loader_of(lt, images, fields, transform=t.FailsAt(bad), **settings) as loader:
        for b, numbers_ in zip(loader, order, strict=True):
            assert b["v"].tolist() == [i not in bad for i in numbers_]
            for i, x, was in zip(b["i"].tolist(), b["x"], numbers_):
                assert x.tobytes() == pictures[i] and i in numbers_ and i not in bad
                assert i == was or was in bad
        assert loader.stats()["transform_samples_skipped"] == len(bad)
    for i in bad:
        assert f"transform of sample {i} (" in caplog.text
    assert "BadSample: number" in caplog.text


def test_a_batch_without_a_good_sample_is_an_error(lt, images):
    everything = range(images.samples)
    with (
        loader_of(lt, images, transform=t.FailsAt(everything), on_error="skip") as loader,
        pytest.raises(lt.errors.TransformError, match="no other sample of the batch can stand in"),
    ):
        next(iter(loader))


def test_errors_of_whole_batches_name_the_first_sample(lt, images):
    first = numbers(lt, images.url, seed=3)[0][0]
    with (
        loader_of(lt, images, transform=t.fails_by_batch, transform_on="batch") as loader,
        pytest.raises(
            lt.errors.TransformError, match=rf"transform of the batch that begins with sample {first} .*BadSample"
        ),
    ):
        next(iter(loader))
    with (
        loader_of(lt, images, collate=t.fails_by_batch) as loader,
        pytest.raises(lt.errors.TransformError, match=rf"^collate of the batch that begins with sample {first} "),
    ):
        next(iter(loader))


def test_samples_that_cannot_be_stacked_are_errors(lt, images):
    with (
        loader_of(lt, images, transform=t.uneven, as_dict=False) as loader,
        pytest.raises(lt.errors.TransformError, match=r"collate of sample \d+ .* an array of \(\d,\), float64 where"),
    ):
        next(iter(loader))
    with (
        loader_of(lt, images, transform=t.not_stackable) as loader,
        pytest.raises(lt.errors.TransformError, match="a value of type object: without collate= a transform returns"),
    ):
        next(iter(loader))


def test_a_transform_must_not_keep_memory_that_is_used_again(lt, images):
    with (
        loader_of(lt, images, transform=t.Keeps(), as_dict=False) as loader,
        pytest.raises(lt.errors.TransformError, match="keeps arrays of samples"),
    ):
        next(iter(loader))


ENDS = {
    "exit": r"SystemExit: 3",
    "_exit": r"\(process \d+\) ended with exit status 3 at sample",
    "string": r"\(process \d+\) (was killed by SIGSEGV|ended with exit status 99) at sample",  # 99: the sanitizer's
    "killed": r"\(process \d+\) was killed by SIGKILL \(for lack of memory\?\) at sample",
}


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_ends_is_an_error_that_names_the_sample(lt, images, how):
    order = numbers(lt, images.url, seed=3)
    bad = order[2][4]
    before = descriptors()
    with loader_of(lt, images, transform=t.FailsAt([bad], how)) as loader:
        group = group_of(loader)
        for _ in range(2):  # others are started, and end likewise
            with pytest.raises(lt.errors.TransformError, match=ENDS[how]) as caught:
                list(loader)
            assert f"sample {bad} (" in str(caught.value) and "epoch 0" in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1 or how == "exit"
        if how != "exit":
            assert_gone(group)
        loader.set_epoch(1)
        assert loader.state_dict()["streams"][0]["epoch"] == 1
    del caught, loader  # a traceback holds what it came through
    gc.collect()
    assert_gone(group)
    assert [f for f in descriptors() if f not in before] == []


def test_a_worker_that_ends_costs_a_sample_with_on_error_skip(lt, images, caplog):
    order = numbers(lt, images.url, seed=3)
    bad = {order[0][3], order[0][4], order[5][0]}
    fields = {"x": lt.image("png").resize((16, 16)), "i": lt.index(), "v": lt.valid()}
    with loader_of(lt, images, fields, transform=t.FailsAt(bad, "_exit"), on_error="skip") as loader:
        batches = [(b["i"].tolist(), b["v"].tolist()) for b in loader]
        assert loader.stats()["transform_samples_skipped"] == 3
    for (got, valid), was in zip(batches, order, strict=True):
        assert valid == [i not in bad for i in was]
        assert [i for i in got if i in was] == got
    assert "ended with exit status 3 at sample" in caplog.text and "it is skipped" in caplog.text


def hangs_at(loader, bad):
    """Takes the first batch and waits until a worker is at a sample of the second one, which it never leaves; the pass."""
    batches = iter(loader)
    next(batches)
    pool, work = loader._python._pool, batches.source.waiting[0]
    wait_until(lambda: f"sample {bad} " in pool.waiting_for(work), 240, "a worker at the sample")
    loader._python.timeout_s = 0.5
    return batches


@pytest.mark.parametrize("how", ["hang", "deaf"])
def test_a_transform_that_hangs_is_an_error_at_the_deadline(lt, images, how):
    bad = numbers(lt, images.url, seed=3)[1][4]
    with loader_of(lt, images, transform=t.FailsAt([bad], how)) as loader:
        batches = hangs_at(loader, bad)
        group = group_of(loader)
        with pytest.raises(
            lt.errors.TimeoutError, match=rf"waited \d+ s for the transform of sample {bad} .* in process \d+"
        ):
            next(batches)
        assert_gone(group)


def test_a_transform_that_hangs_costs_a_sample_with_on_error_skip(lt, images):
    bad = numbers(lt, images.url, seed=3)[1][4]
    with loader_of(lt, images, transform=t.FailsAt([bad], "hang"), on_error="skip") as loader:
        batches = hangs_at(loader, bad)
        next(batches)
        loader._python.timeout_s = 600
        assert 2 + len(list(batches)) == len(loader)
        assert loader.stats()["transform_samples_skipped"] == 1


@pytest.mark.parametrize("how", ["return", "stay", "exec"])
def test_a_transform_that_forks_leaves_no_process_and_no_second_batch(lt, images, how, capfd):
    with loader_of(lt, images, transform=t.Forks(how)) as loader:
        group = group_of(loader)
        assert [b["i"].tolist() for b in loader] == numbers(lt, images.url, seed=3)
        if how == "stay":
            assert len(workers_left(group)) > 3
    assert_gone(group)
    if how == "return":
        assert "a process that the transform has forked returned from it" in capfd.readouterr().err


def test_a_pass_that_is_broken_off_does_not_wait_for_what_nobody_wants(lt, images):
    """Who waits for a sample of a later batch waits for ever."""
    first = numbers(lt, images.url, seed=3)[0]
    loader = loader_of(lt, images, transform=t.FailsAt(set(range(images.samples)) - set(first), "hang"))
    assert next(iter(loader))["i"].tolist() == first
    loader.close()


def test_what_cannot_work_is_refused_at_the_start(lt, images):
    def refused(match, **more):
        with pytest.raises(lt.errors.InvalidError, match=match):
            loader_of(lt, images, **more)

    refused("transform=3 is not a function", transform=3)
    refused('transform_on=.rows. is neither "sample" nor "batch"', transform=t.same, transform_on="rows")
    refused("has no samples to collate", transform=t.same, collate=t.same, transform_on="batch")
    refused("transform_workers is not a whole number from 0 to", transform=t.same, transform_workers=-1)
    refused("transform_workers is not a whole number from 0 to", transform=t.same, transform_workers=1000)
    refused("slots=3 is too few for 2 transform workers: give at least 5", transform=t.same, slots=3)
    refused("transform_workers: there is no transform", transform_workers=3)
    refused("transform cannot be given to worker processes: .*lambda.*transform_workers=0", transform=lambda s: s)
    with loader_of(lt, images, transform=lambda s: s, transform_workers=0) as loader:
        assert len(list(loader)) == len(loader)
    with loader_of(lt, images, transform=t.same, slots=5) as loader:
        assert len(list(loader)) == len(loader)


def test_a_transform_that_cannot_be_loaded_says_why(lt, images):
    with loader_of(lt, images, transform=t.Unloadable()) as loader:
        group = group_of(loader)
        with pytest.raises(
            lt.errors.TransformError, match="cannot be loaded in a worker process: RuntimeError: not here"
        ):
            next(iter(loader))
        assert_gone(group)


def program(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return path


def start(runtime, path, *args):
    places = f"{PYTHON_BUILD / 'python'}:{Path(__file__).parent}"
    return loading.start(runtime, [sys.executable, *map(str, (path, *args))], PYTHONPATH=places)


MAIN = """
    import os, sys, time
    import leat

    class MineError(Exception):
        pass

    def negative(sample):
        x, i = sample
        if len(sys.argv) > 2 and i == int(sys.argv[2]):
            raise MineError("mine")
        return -x.astype("i2"), i

    def main(url):
        fields = {"x": leat.image("png").resize((8, 8)), "i": leat.index()}
        loader = leat.Loader(url, fields=fields, batch_size=10, as_numpy=True, transform=negative, transform_workers=2)
        seen = []
        try:
            for x, i in loader:
                assert x.max() <= 0 and x.dtype == "i2"
                seen += i.tolist()
        except leat.errors.TransformError as error:
            print("cause", type(error.__cause__) is MineError)
        print(len(set(seen)), len(seen))
"""


def test_a_function_of_the_program_itself_is_found_by_the_workers(runtime, images, tmp_path):
    path = program(tmp_path, MAIN + '\n    if __name__ == "__main__":\n        main(sys.argv[1])\n')
    out, err = start(runtime, path, images.url).communicate(timeout=60 * SLOW)
    assert (out, err) == ("200 200\n", "")
    out, err = start(runtime, path, images.url, 17).communicate(timeout=60 * SLOW)
    assert out.startswith("cause True\n"), err


def test_a_program_that_cannot_be_imported_is_told_what_to_do(runtime, images, tmp_path):
    path = program(tmp_path, MAIN + "\n    main(sys.argv[1])\n")
    out, err = start(runtime, path, images.url).communicate(timeout=60 * SLOW)
    assert out == "" and err.splitlines()[-1].startswith(
        "leat.errors.InvalidError: transform workers import the program"
    )
    assert 'if __name__ == "__main__":' in err.splitlines()[-1]


def test_a_function_that_was_typed_in_is_refused(runtime, images, tmp_path):
    text = textwrap.dedent(MAIN) + "\nmain(sys.argv[1])\n"
    out, err = start(runtime, "-c", text, images.url).communicate(timeout=60 * SLOW)
    assert out == "" and "defined in a notebook or an interactive program" in err.splitlines()[-1]


WAITS = """
    import os, sys, time
    import leat, transforms

    if __name__ == "__main__":
        fields = {"x": leat.image("png").resize((8, 8)), "i": leat.index()}
        how = transforms.same if sys.argv[2] == "idle" else transforms.FailsAt(range(10**6), sys.argv[2])
        more = {"transform": how, "as_dict": True, "transform_workers": 2}
        loader = leat.Loader(sys.argv[1], fields=fields, batch_size=20, as_numpy=True, **more)
        if sys.argv[2] == "idle":
            next(iter(loader))
        print(loader._python._pool._process, flush=True)
        if sys.argv[2] == "idle":
            time.sleep(1000)
        for b in loader:
            pass
"""


def is_deaf(process):
    """All signals that can be blocked are."""
    blocked = re.search(r"^SigBlk:\s*(\w+)", Path(f"/proc/{process}/status").read_text(), flags=re.M).group(1)
    return int(blocked, 16) >> (signal.SIGTERM - 1) & 1


# To Python's end, SIGTERM is what SIGKILL is.
@pytest.mark.parametrize("how", ["hang", "idle", "deaf"])
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGINT]
)
def test_workers_end_with_the_program_however_it_ends(runtime, images, tmp_path, how, number):
    path = program(tmp_path, WAITS)
    process = start(runtime, path, images.url, how)
    group = int(process.stdout.readline())
    wait_until(lambda: len(workers_left(group)) == 3, 60, "workers")
    if how == "deaf":
        wait_until(lambda: sum(map(is_deaf, workers_left(group))) == 2, 60, "workers that hear nothing")
    process.send_signal(number)
    _, err = process.communicate(timeout=60 * SLOW)
    assert_gone(group)
    if number == signal.SIGINT:
        assert err.splitlines()[-1].startswith("KeyboardInterrupt")
    else:
        assert err == ""


def test_a_forked_child_goes_on_with_workers_of_its_own(lt, images):
    order = numbers(lt, images.url, seed=3)
    with loader_of(lt, images, transform=t.same) as other:
        ended = iter(other)  # its descriptors are closed, and their numbers others'
        next(ended)
    with loader_of(lt, images, transform=t.same) as loader:
        batches = iter(loader)
        got = [next(batches)["i"].tolist() for _ in range(2)]
        ahead = batches.source
        wait_until(lambda: ahead.waiting and all(ahead.ready(w) for w in ahead.waiting), 30, "results")
        pid = os.fork()
        if pid == 0:
            ok = [b["i"].tolist() for b in batches] == order[2:]
            loader.close()
            os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        for b in batches:  # results that had come before the fork are still the parent's
            got.append(b["i"].tolist())
            time.sleep(0.1)  # workers would have the time to write over them
        assert got == order
        group = group_of(loader)
    assert_gone(group)


def test_lost_agents_cost_no_sample(lt, runtime, images):
    order = numbers(lt, images.url, seed=3)
    with loader_of(lt, images, transform=t.slowly) as loader:
        got = []
        for n, b in enumerate(loader):
            if n in (1, 4):
                runtime.kill_agents()
            got.append(b["i"].tolist())
        assert got == order


def test_slow_transforms_are_named_in_a_warning(lt, images, caplog):
    bad = numbers(lt, images.url, seed=3)[0][4]
    with loader_of(lt, images, transform=t.FailsAt([bad], "hang")) as loader:
        group = group_of(loader)

        def end_the_wait():
            wait_until(lambda: "has been waiting" in caplog.text, 60, "the warning")
            os.killpg(group, signal.SIGKILL)

        threading.Thread(target=end_the_wait).start()
        with pytest.raises(lt.errors.TransformError):
            next(iter(loader))
    assert re.search(rf"has been waiting for \d+ s for the transform of sample {bad} \(", caplog.text)


class Interrupt:
    """Ctrl-C at the n-th line that runs in leat.stages."""

    def __init__(self, stages, n):
        self.file, self.left = stages.__file__, n

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename != self.file:
            return None
        at = linecache.getline(self.file, frame.f_lineno).strip()
        if event == "line" and at != "return values":  # from there on it is the program's
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_lineno}: {at}"
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("workers", [0, 1])
def test_ctrl_c_at_any_line_loses_no_batch_and_doubles_none(lt, images, workers):
    from leat import stages

    fields = {"i": lt.index()}
    with lt.Loader(images.url, fields=fields, batch_size=8, seed=1, as_numpy=True) as plain:
        plain.set_epoch(6)
        order = [i.tolist() for (i,) in plain]
    with lt.Loader(
        images.url, fields=fields, batch_size=8, seed=1, as_numpy=True, transform=t.same, transform_workers=workers
    ) as loader:
        n, finished = 1, False
        while not finished:
            loader.set_epoch(5)
            next(iter(loader))  # broken off: the next pass is epoch 6
            seen, batches = [], iter(loader)
            interrupt = Interrupt(stages, n)
            while len(seen) < 4:
                sys.settrace(interrupt)
                try:
                    batch = next(batches)
                except KeyboardInterrupt:
                    continue
                finally:
                    sys.settrace(None)
                seen.append(batch[0].tolist())
            assert seen == order[:4], f"interrupted at {interrupt.where}"
            finished = interrupt.left > 0
            n += 1 if workers == 0 else 9
