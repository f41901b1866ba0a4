"""What is unusual in a running training is said once, to the program and in the agent's log, with what to do."""

import logging
import time

import pytest


def run_for(loader, seconds, until):
    """Takes batches, epoch after epoch, as a training with steps of 10 ms; the seconds only end a hang."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        for _ in loader:
            time.sleep(0.01)
            if time.monotonic() > end or until():
                return


def test_a_bucket_that_throttles_is_said_once(lt, runtime, blobs, in_bucket, caplog):
    in_bucket(blobs, "--fault", "503=0.1", "--fault-only", "chunks")
    caplog.set_level(logging.WARNING, "leat")

    def said():
        return [r.getMessage() for r in caplog.records if "asked to slow down" in r.getMessage()]

    def in_log():
        return [line for line in runtime.log().splitlines() if "asked to slow down" in line]

    fields = {"b": lt.bytes("bin"), "i": lt.index()}
    with lt.Loader("s3://bucket/ds", batch_size=4, fields=fields, ram="700kb", window=4, timeout=60) as loader:
        run_for(loader, 120, lambda: said() and in_log())
        assert loader.stats()["throttled"] >= 10  # the log says ten
    assert len(said()) == 1 and len(in_log()) == 1
    assert "ram=, cache=" in said()[0] and "warning" in in_log()[0]


@pytest.mark.long
def test_other_ranks_leave_it_to_the_first(lt, runtime, blobs, in_bucket, caplog):
    in_bucket(blobs, "--fault", "503=0.1", "--fault-only", "chunks")
    caplog.set_level(logging.WARNING, "leat")
    options = {"batch_size": 4, "ram": "700kb", "window": 4, "timeout": 60, "rank": 1, "world_size": 2}
    with lt.Loader("s3://bucket/ds", fields={"b": lt.bytes("bin"), "i": lt.index()}, **options) as loader:
        run_for(loader, 120, lambda: "asked to slow down" in runtime.log())
    assert "asked to slow down" in runtime.log()
    assert not [r for r in caplog.records if "asked to slow down" in r.getMessage()]


@pytest.mark.long
def test_a_training_without_trouble_hears_nothing(lt, runtime, blobs, caplog):
    caplog.set_level(logging.WARNING, "leat")
    with lt.Loader(blobs.url, batch_size=4, fields={"i": lt.index()}) as loader:
        run_for(loader, 11, lambda: False)
        assert loader.stats()["batches"] > 0
    assert caplog.records == [] and "warning" not in runtime.log()


def test_a_bucket_in_another_region_is_said_once(lt, runtime, blobs, in_bucket, caplog, monkeypatch):
    in_bucket(blobs, "--region", "eu-west-3", env={"LEAT_SERVE_ACCESS_KEY": "id", "LEAT_SERVE_SECRET_KEY": "secret"})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    caplog.set_level(logging.WARNING, "leat")
    with lt.Loader("s3://bucket/ds", batch_size=4, fields={"i": lt.index()}) as loader:
        for _ in loader:
            pass
        loader.set_epoch(5)
        next(iter(loader))
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1 and "is in region eu-west-3" in said[0] and "AWS_REGION=eu-west-3" in said[0]
