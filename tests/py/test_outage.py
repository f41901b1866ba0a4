"""A bucket that is away for a minute, at the default settings: nothing ends, and nothing is wrong afterwards."""

import subprocess
import threading
import time

import pytest
from command_tools import MIB, some_bytes, started, wait_until
from faulty_server import FaultyServer, black_hole, status
from loading import point_to, smallest_budget, upload, values_of

AWAY_S = 60

pytestmark = pytest.mark.long


def go_away(server, how):
    """Ends the service in the way named and returns what brings it back."""
    if how == "503":
        server.fault(status(503, "SlowDown"))
        return server.faults.clear
    if how == "silence":
        server.fault(black_hole)
        return server.faults.clear
    objects = server.objects
    server.stop()

    def back():
        another = FaultyServer(port=server.port)
        another.objects = objects
        back.server = another

    return back


@pytest.mark.parametrize("how", ["503", "gone", "silence"])
def test_an_outage_in_mid_copy_is_survived(leat_bin, clean_env, tmp_path, faulty, how):
    server = faulty()
    data = server.objects["bucket/big"] = some_bytes(64 * MIB)

    def slow(exchange):
        time.sleep(1)
        exchange.server.proper(exchange)

    server.fault(slow, method="GET")
    args = ["cp", "--connections", 1, "s3://bucket/big", tmp_path / "to"]
    with started(leat_bin, {**clean_env, **server.env()}, *args, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: server.count("GET") > 1, "the copy to begin")
        server.faults.clear()
        back = go_away(server, how)
        time.sleep(AWAY_S)
        assert process.poll() is None, process.stderr.read()
        back()
        process.wait(120)
        assert process.returncode == 0, process.stderr.read()
    assert (tmp_path / "to").read_bytes() == data
    if hasattr(back, "server"):
        back.server.stop()


@pytest.mark.parametrize("how", ["503", "gone"])
def test_an_outage_in_mid_training_is_survived(lt, runtime, large, faulty, monkeypatch, how):
    server = faulty()
    upload(server, large.path)
    point_to(server, monkeypatch)
    options = {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}}
    budget = smallest_budget(lt, "s3://bucket/ds", **options)
    runtime.wait_gone()
    state = {}

    def interrupt():
        state["back"] = go_away(server, how)
        time.sleep(AWAY_S)
        state["back"]()

    with lt.Loader("s3://bucket/ds", ram=budget, **options) as loader:
        thread = None
        began = time.monotonic()
        epochs = 0
        while time.monotonic() - began < AWAY_S + 20 or epochs < 2:
            seen = {}
            for batch in loader:
                seen |= values_of([batch])
                if thread is None:
                    thread = threading.Thread(target=interrupt)
                    thread.start()
            assert seen == large.known
            epochs += 1
    thread.join()
    if hasattr(state["back"], "server"):
        state["back"].server.stop()
