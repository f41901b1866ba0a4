"""A job of as many machines as there may be: what its ranks and agents tell each other is longer than a packet."""

import json

import pytest
from conftest import SANITIZE
from loading import SLOW, wait_until

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")

MACHINES = 4000


class World:
    """The ranks of as many machines, of which this one is the first and the others only say what they would."""

    def __init__(self, others):
        self.rank, self.others, self.sizes = 0, others, {}

    def get_rank(self):
        return self.rank

    def get_world_size(self):
        return 1 + len(self.others)

    def gather(self, what, mine, judge):
        if what == "nodes":
            return json.dumps(list(range(self.get_world_size())))
        if what == "agreement":
            return ""
        cards = [json.dumps({"address": a, "in": True, "problem": "", "zone": ""}) for a in self.others]
        answer = judge([mine, *(self.others if what == "seen" else cards)])
        self.sizes[what] = len(mine), len(answer)
        return answer

    def part(self):
        pass


def test_a_job_of_4000_machines_is_told_to_all_of_them(lt, blobs, runtime, etcd, monkeypatch, run_leat, caplog):
    from leat import job as words
    from leat import ranks

    box = etcd()
    others = [f"10.100.{i // 256}.{i % 256}:{50000 + i}" for i in range(MACHINES - 1)]
    options = {"fields": {"k": lt.key()}, "batch_size": 1, "last": "pad", "job": box.url("run"), "timeout": 60 * SLOW}
    with lt.Loader(blobs.url, **options) as alone:
        next(iter(alone))
        members = box.members("run")
        members["nodes"] += [[address, 1] for address in others]
        box.put_members("run", members)

        def told():
            text = run_leat("job", "--json", env={"LEAT_RUNTIME_DIR": runtime.folder}, status=0).stdout
            return len(json.loads(text.splitlines()[0])["nodes"]) == MACHINES

        wait_until(told, 60 * SLOW, "the agent to know them all")
        world = World(others)
        monkeypatch.setattr(words, "SIGHT_PATIENCE_S", 0.1)  # they are not there
        monkeypatch.setattr(ranks, "_meet", lambda timeout_s: world)
        monkeypatch.setattr(ranks, "_distributed", lambda: world)
        monkeypatch.setattr(ranks, "rank_and_world", lambda: (0, MACHINES))
        with lt.Loader(blobs.url, **options) as loader:
            (keys,) = next(iter(loader))
            assert len(keys) == 1 and keys[0] in blobs.known
            assert loader.stats()["job_problem"] == ""
    assert "do not share" not in caplog.text
    assert world.sizes["etcd"][0] < 1000, "each machine's word is for all: it has no list of the others"
