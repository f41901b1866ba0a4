"""Cleaners of temporary files remove socket, lock, log or the whole folder under a living agent: loaders go on, and new ones come."""

import shutil
from pathlib import Path

import pytest
from loading import numbers, stopped, wait_until

G = 24


def clean(runtime, *endings):
    for path in Path(runtime.folder).iterdir():
        if path.suffix[1:] in endings:
            path.unlink()


def names(runtime):
    return {path.suffix[1:]: path.stat().st_ino for path in Path(runtime.folder).iterdir()}


@pytest.mark.parametrize("removed", [["sock"], ["sock", "lock"], ["sock", "lock", "log"], ["lock"], "folder"])
def test_agent_makes_its_names_again(lt, runtime, images, removed):
    options = {"batch_size": G, "fields": {"i": lt.index()}, "timeout": 60}
    expected = [numbers(lt, images.url, epoch=epoch) for epoch in range(6)]
    runtime.wait_gone()
    with lt.Loader(images.url, **options) as loader:
        batches = iter(loader)
        seen = [next(batches)[0].tolist()]
        pid = runtime.agent()
        if removed == "folder":
            shutil.rmtree(runtime.folder)
        else:
            clean(runtime, *removed)
        wait_until(lambda: {"sock", "lock"} <= names(runtime).keys() if Path(runtime.folder).exists() else False)
        with lt.Loader(images.url, **options) as new:
            assert [i.tolist() for (i,) in new] == expected[0]
            assert new.stats()["agent_pid"] == pid, "the one that lives"
        assert seen + [i.tolist() for (i,) in batches] == expected[0]
        loader.set_epoch(5)
        assert [i.tolist() for (i,) in loader] == expected[5]
        assert runtime.agents() == [pid]
        assert "made it again" in runtime.log() or removed == ["lock"]
    runtime.wait_gone()
    assert runtime.left_behind() == []


def test_loader_that_comes_before_the_socket_is_made_again_waits_for_it(lt, runtime, images):
    options = {"batch_size": G, "fields": {"i": lt.index()}, "timeout": 60}
    with lt.Loader(images.url, **options) as loader:
        next(iter(loader))
        pid = runtime.agent()
        for jump in (False, True):
            clean(runtime, "sock")
            if jump:
                loader.set_epoch(3)
                next(iter(loader))
                served_by = loader.stats()["agent_pid"]
            else:
                with lt.Loader(images.url, **options) as new:
                    next(iter(new))
                    served_by = new.stats()["agent_pid"]
            assert served_by == pid
            wait_until(lambda: runtime.agents() == [pid])  # a second one finds the lock held, and ends


def test_agent_leaves_its_successors_names_alone(lt, runtime, images):
    options = {"batch_size": G, "fields": {"i": lt.index()}, "timeout": 60}
    old = lt.Loader(images.url, **options)
    batches = iter(old)
    seen = [next(batches)[0].tolist()]
    pid = runtime.agent()
    with stopped(pid):  # so that the successor is faster
        clean(runtime, "sock", "lock")
        new = lt.Loader(images.url, **options)
        successor = new.stats()["agent_pid"]
        assert successor != pid
        theirs = names(runtime)
    wait_until(lambda: "another agent has taken its place" in runtime.log())
    assert seen + [i.tolist() for (i,) in batches] == [i.tolist() for (i,) in new]
    old.close()
    wait_until(lambda: runtime.agents() == [successor], what="the end of the old agent")
    assert {name: theirs[name] for name in ("sock", "lock")} == {
        name: names(runtime)[name] for name in ("sock", "lock")
    }
    with lt.Loader(images.url, **options) as third:
        assert third.stats()["agent_pid"] == successor
    new.close()
    runtime.wait_gone()
    assert runtime.left_behind() == []
