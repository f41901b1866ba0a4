"""Memory runs out in an agent while it serves the other machines of its job, or meets them: they are told no, or nothing, and
are served when there is memory again."""

import http.client

import pytest
from conftest import SANITIZE
from loading import make_blobs, pack, wait_until
from machines import FakePeer, jobs_of
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
        except (OSError, http.client.HTTPException):  # the connection was dropped, perhaps within the answer
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


def test_asking_goes_on_when_there_is_memory_again(lt, memory, leat_bin, runtime, run_leat, tmp_path):
    """Stores for the others, requests to them and what is known of them: whatever cannot be allocated, each sample comes once,
    from wherever it can, or the error is typed."""
    known = make_blobs(tmp_path / "files", 200, sizes=(15000, 17000))
    packed = pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "64KiB", known=known)
    chunks = {p.name: p.read_bytes() for p in packed.path.rglob("*") if p.is_file()}
    peer = FakePeer(lambda path: (200, chunks[path.rsplit("/", 1)[1]]) if "/chunk/" in path else (200, b"ok"))
    alone = Alone(lt, str(packed.path), peer.address, ram="1mib")
    peer.begin(tmp_path, alone.members["cert"], alone.members["key"])
    alone.join()
    pid = runtime.agent()

    def read():
        got, errors = [], 0
        batches = iter(alone.loader)
        while True:
            try:
                data, names = next(batches)
            except StopIteration:
                break
            except lt.Error as error:
                assert type(error).__name__ in ("OutOfMemoryError", "LimitError", "NetworkError"), error
                errors += 1
                assert errors < 50, error
                continue
            got += map(str, names)
            assert all(known[str(k)] == bytes(x) for k, x in zip(names, data))
        assert len(set(got)) == len(got) == 100

    def from_peer():
        (job,) = [job for job in jobs_of(run_leat, runtime) if len(job["nodes"]) == 2]
        return job["nodes"][1]["chunks"]

    read()
    before = memory.seen()
    read()
    allocations = memory.seen() - before
    failed = 0
    for n in range(TIMES // 2):
        memory.fail(2 * n * allocations // TIMES, (1, 3, 20)[n % 3])
        read()
        failed += memory.recover() > 0
    assert failed > TIMES // 4 and runtime.agent() == pid
    taken = from_peer()
    assert taken > 0
    wait_until(lambda: read() or from_peer() > taken, 60, "the machine to be asked again")
    alone.close()
    peer.close()
