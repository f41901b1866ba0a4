"""One bit that is flipped on its way while a dataset is opened or listed: the answer is read again, and that is all."""

import json
import random
import signal

import pytest
from faulty_server import changed
from loading import point_to, upload
from token_data import Tokens, documents


def flip(draw, most=1 << 30):
    """Changes one bit of the first `most` bytes."""

    def one(code, headers, body):
        at = draw.randrange(8 * min(len(body), most))
        return code, headers, body[: at // 8] + bytes([body[at // 8] ^ 1 << at % 8]) + body[at // 8 + 1 :]

    return changed(one)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_a_loader_opens_whichever_answer_has_a_flipped_bit(lt, runtime, faulty, tmp_path, monkeypatch, seed):
    """Of a token dataset, whose table of samples is read while a loader for its blocks is opened."""
    data = Tokens(tmp_path, documents(seed, [9, 5, 8]))
    server = faulty()
    upload(server, tmp_path)
    point_to(server, monkeypatch)
    draw = random.Random(seed)
    options = {"batch_size": 8, "last": "short", "shuffle": False, "as_numpy": True, "as_dict": True}

    def read():
        fields = {"x": lt.tokens("tokens")}
        with lt.Loader("s3://bucket/ds", view=lt.blocks(16), fields=fields, **options) as loader:
            blocks = [block.tolist() for batch in loader for block in batch["x"]]
        runtime.kill_agents(signal.SIGTERM)
        runtime.wait_gone()
        assert blocks == [block.tolist() for block, *_ in data.cut(16, 1)]
        return len(server.of("GET"))

    asked = read()
    assert any("/sections/" in request.key for request in server.of("GET"))
    for number in range(asked):
        server.requests.clear()
        server.fault(flip(draw), times=1, after=number, method="GET")
        assert read() > asked, "the damage was noticed"


def test_a_list_of_versions_is_whole_though_a_root_came_damaged(run_leat, faulty, tmp_path):
    Tokens(tmp_path, documents(1, [3]))
    server = faulty()
    upload(server, tmp_path)
    command = ["info", "--versions", "--json", "s3://bucket/ds"]
    whole = json.loads(run_leat(*command, env=server.env(), status=0).stdout)
    server.fault(flip(random.Random(1), 8), times=1, match=lambda request: "/roots/" in request.key)
    assert json.loads(run_leat(*command, env=server.env(), status=0).stdout) == whole
    assert len([r for r in server.of("GET") if "/roots/" in r.key]) == 3, "it was read again"
