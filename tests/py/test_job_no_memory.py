"""Memory runs out in an agent while it serves the other machines of its job, or meets them: they are told no, or nothing, and
are served when there is memory again."""

import pytest
from conftest import SANITIZE
from machines import FakePeer
from test_job import Alone, request
from test_loader_no_memory import memory

__all__ = ["memory"]
pytestmark = pytest.mark.skipif(bool(SANITIZE), reason="the sanitizers' own allocations would fail as well")
TIMES = 60


def test_serving_goes_on_when_there_is_memory_again(lt, memory, blobs, runtime, tmp_path):
    peer = FakePeer(lambda path: (404, b""))
    alone = Alone(lt, blobs.url, peer.address)
    peer.begin(tmp_path, alone.members["cert"], alone.members["key"])
    alone.join()
    alone.read()
    peer.close()
    path = next(path for path, _ in peer.asked if path.startswith("/chunk/"))
    token, pid = alone.members["token"], runtime.agent()
    whole = request(alone.own, path, token)
    assert whole[0] == 200
    before = memory.seen()
    assert request(alone.own, path, token) == whole
    allocations = memory.seen() - before
    told = {200: 0, 404: 0, None: 0}
    for n in range(TIMES):
        memory.fail(n * allocations // TIMES, (1, 1, 3)[n % 3])
        try:
            code, body = request(alone.own, path, token)
            assert code == 404 or (code, body) == whole
        except OSError:  # the connection was dropped
            code = None
        told[code] += memory.recover() > 0
        assert request(alone.own, path, token) == whole, n
    assert told[200] + told[404] + told[None] > TIMES // 2 and told[None] > 0
    assert runtime.agent() == pid
    alone.close()


def test_meeting_fails_with_a_reason_and_works_afterwards(lt, memory, blobs, runtime):
    alone = Alone(lt, blobs.url, None)

    def meet():
        where = alone.ask("card", address="127.0.0.1", port=0)["address"]
        members = alone.ask("make", job="", nodes=[[where, 1], ["", 1]])
        problem = alone.ask("join", node=0, members=members)["problem"]
        return where, members["token"], problem

    pid = runtime.agent()
    meet()
    before = memory.seen()
    meet()
    allocations = memory.seen() - before
    failed = 0
    for n in range(TIMES // 2):
        memory.fail(n * allocations // (TIMES // 2), (1, 2)[n % 2])
        try:
            where, token, problem = meet()
            memory.recover()
            assert problem or request(where, "/alive", token) == (200, b"ok")
        except lt.Error as error:
            memory.recover()
            failed += 1
            assert str(error)
            alone.close()  # without memory for an answer the agent hangs up
            alone = Alone(lt, blobs.url, None)
    where, token, problem = meet()
    assert not problem and request(where, "/alive", token) == (200, b"ok")
    assert failed > 0 and runtime.agent() == pid
    alone.close()
