"""An address that does not answer is said as such, by the loader that was given it, and never as a lost agent."""

import contextlib
import re
import socket
import threading

import pytest
from loading import SLOW, free_port

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}


@pytest.fixture
def keys(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@contextlib.contextmanager
def hung():
    """A server that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        held = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for one in held:
            one.close()


def open_and_read(lt, port, **more):
    with lt.Loader(
        "s3://bucket/ds", batch_size=8, fields={"b": lt.bytes("bin")}, endpoint_url=f"http://127.0.0.1:{port}", **more
    ) as loader:
        next(iter(loader))


def assert_said(error, port, words):
    text = str(error)
    assert "127.0.0.1" in text and str(port) in text, text
    assert re.search(words, text, re.I), text
    assert "agent was lost" not in text and "lost" not in text, text


def test_connection_that_is_refused(lt, keys):
    port = free_port()
    with pytest.raises(lt.Error) as caught:
        open_and_read(lt, port, timeout=6)
    assert_said(caught.value, port, "refused|connect")


def test_server_that_never_answers(lt, keys):
    with hung() as port:
        with pytest.raises(lt.Error, match=f"could not be opened within {3 * SLOW} s") as caught:
            open_and_read(lt, port, timeout=3 * SLOW)
        assert_said(caught.value, port, "answer|time|deadline")


def test_name_that_does_not_exist(lt, keys):
    with pytest.raises(lt.Error) as caught:
        lt.Loader(
            "s3://bucket/ds", batch_size=8, fields={"b": lt.bytes("bin")},
            endpoint_url="http://no-such-host.invalid:9", timeout=6,
        ).close()  # fmt: skip
    assert "no-such-host.invalid" in str(caught.value) and "lost" not in str(caught.value), str(caught.value)


def test_bucket_that_goes_away_after_opening_is_named(lt, runtime, blobs, in_bucket):
    server = in_bucket(blobs)
    options = {"batch_size": 8, "fields": {"b": lt.bytes("bin")}, "endpoint_url": server.url, "timeout": 4}
    with lt.Loader("s3://bucket/ds", **options) as loader:
        iterator = iter(loader)
        next(iterator)
        server.stop()
        runtime.kill_agents()  # the next one has to ask the bucket for everything
        with pytest.raises(lt.Error) as caught:
            for _ in range(len(loader)):
                next(iterator)
        assert_said(caught.value, server.port, "refused|connect")
