"""What a job's address may be, and ranks that meet where one of them fails: without any machine."""

import json
import logging

import pytest

PASSWORD = "hunter-2-hunter"


@pytest.fixture
def job(lt, monkeypatch):
    from leat import job

    for name in ("LEAT_JOB", "LEAT_JOB_ZONE", "ETCDCTL_USER", "ETCDCTL_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LEAT_JOB_ADDRESS", "10.0.0.1")
    return job


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("etcd", "etcd:2379"),
        ("etcd-0.x:2,10.0.0.1", "etcd-0.x:2,10.0.0.1:2379"),
        ("[::1]", "[::1]:2379"),
        ("[fe80::1]:99", "[fe80::1]:99"),
    ],
)
def test_hosts_have_a_port(job, hosts, found):
    assert job.service(f"etcd://{hosts}/name")["hosts"] == found


def test_users_and_names_are_taken_as_they_are_written(job):
    made = job.service("etcds://ann:a%2Fb%40c@etcd/team@run")
    assert (made["user"], made["password"], made["tls"]) == ("ann", "a/b@c", True)
    assert made["prefix"] == "/leat/team%40run"


@pytest.mark.parametrize(
    "text",
    [
        f"http://root:{PASSWORD}@etcd:2379/name",
        f"root:{PASSWORD}@etcd:2379/name",
        f"etcd:root:{PASSWORD}@etcd:2379/name",
        f"etcd://root:{PASSWORD}@etcd:2379",
        f"etcd://root:{PASSWORD}@/name",
        f"etcd://root:{PASSWORD}/x@etcd:2379/name",
        f"etcd://root:x/{PASSWORD}@etcd:2379/name",
        f"etcd://root:{PASSWORD}@x@::1/name",
    ],
)
def test_what_is_wrong_is_said_without_the_password(job, text):
    with pytest.raises(job.InvalidError) as caught:
        job.choose(text)
    assert "etcd://HOST" in str(caught.value)
    assert PASSWORD not in str(caught.value)


class Agent:
    """Lets its machine in; then it is lost, for who asks for others."""

    def __init__(self, error):
        self.error = error
        self.version = "0" * 64
        self.shared = []

    def confer(self, text):
        asked = json.loads(text)
        if "wants" in asked:
            raise self.error
        return json.dumps({"address": "10.0.0.1:5", "in": True, "roster": ["10.0.0.1:5"], "problem": ""})

    def share(self, text):
        self.shared.append(json.loads(text))


class Ranks:
    """Two, on a machine each; the other one has no trouble."""

    world = 2

    def __init__(self, rank):
        self.rank = rank
        self.gathered = []

    def gather(self, name, text, judge):
        self.gathered.append(name)
        other = json.dumps({"address": "10.0.0.2:5", "in": True, "roster": [], "problem": "", "zone": ""})
        if name == "seen":
            return json.dumps([text, "10.0.0.2:5"][:: 1 if self.rank == 0 else -1])
        if self.rank == 0:
            return judge([text, other])
        cards = [json.loads(other), json.loads(text)]
        world = [["10.0.0.2:5", 1], ["10.0.0.1:5", 1]]
        return json.dumps({"world": world, "roster": ["10.0.0.1:5"], "problems": [], "cards": cards})


@pytest.mark.parametrize("rank", [0, 1])
def test_an_agent_that_is_lost_while_all_meet_keeps_nobody_waiting(job, caplog, rank):
    agent, ranks = Agent(job.Error("the agent is lost")), Ranks(rank)
    with caplog.at_level(logging.WARNING, "leat"):
        job.meet_in_etcd(agent, ranks, [0, 1], "etcd://127.0.0.1/name")
    assert ranks.gathered == ["etcd", "seen"]
    assert "the agent is lost" in caplog.text
    assert agent.shared[0]["address"] == "10.0.0.1:5"
