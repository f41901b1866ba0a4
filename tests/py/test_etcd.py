"""Machines that share through etcd: they come and go at any time, and whatever becomes of them or of etcd, every sample comes
once with the right bytes."""

import contextlib
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from conftest import PRELOAD, SANITIZE
from etcd_box import POOL, Way, end_machine, start_alone, trainings
from loading import PYTHON_BUILD, free_port, wait_until
from machines import check_epochs, finish, jobs_of, wait_for_lines

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")

LEASE_S = 6
ENDLESS = {"epochs": 1 << 20, "pause": 0.02}


def peer_bytes(lines):
    return lines[-1]["stats"]["bytes_by_source"]["peer"]


def test_each_byte_leaves_the_bucket_once_for_the_whole_job(bucket, machines, etcd):
    box = etcd()
    url, env, server, packed = bucket()
    ranks = machines(2).start({"url": url, "epochs": 2, "loader": {"job": box.url("run")}}, env)
    lines = [finish(rank)[0] for rank in ranks]
    check_epochs(lines, packed, 2)
    assert server.stats()["bytes_sent"] <= 1.02 * packed.bytes + 2 * 8192
    assert all(peer_bytes(each) > 0 for each in lines)


def test_a_machine_that_joins_takes_its_share_without_a_stop(bucket, machines, etcd, run_leat):
    """Two trainings that know nothing of each other: the second begins in the middle of the first, reads what the first has,
    and owns half from then on."""
    box = etcd()
    url, env, server, packed = bucket()
    both = machines(2)
    job = {"url": url, "epochs": 6, "pause": 0.02, "loader": {"job": box.url("pool")}}
    first = start_alone(both, 0, job, env)
    begun = wait_for_lines(first, 62)  # its first epoch
    assert len(begun) == 62
    taken = server.stats()["bytes_sent"]
    second = start_alone(both, 1, {**job, "epochs": 2, "batch": 6}, env)
    seen = wait_for_lines(second, 20)
    for runtime in both.runtimes:
        (found,) = jobs_of(run_leat, runtime)
        assert [node["state"] for node in found["nodes"]].count("good") == 1
        assert [node["slots"] for node in found["nodes"]] == [512, 512]
    lines = [begun + finish(first)[0], seen + finish(second)[0]]
    check_epochs(lines[:1], packed, 6)
    check_epochs(lines[1:], packed, 2)
    assert peer_bytes(lines[1]) >= 0.4 * packed.bytes
    # what the second owns it fetches once; the first has all
    assert server.stats()["bytes_sent"] - taken <= 0.7 * packed.bytes


def test_one_that_leaves_says_so_and_one_that_dies_is_missed(bucket, machines, etcd):
    box = etcd()
    url, env, _, packed = bucket()
    three = machines(3)
    way = Way(box.port)  # of the one that leaves
    job = {"url": url, "epochs": 60, "pause": 0.05, "loader": {"job": box.url("run")}}
    leaving = {**job, "loader": {"job": box.url("run", hosts=f"127.0.0.1:{way.port}")}}
    ranks = [start_alone(three, i, leaving if i == 1 else job, env) for i in range(3)]
    try:
        for rank in ranks:
            wait_for_lines(rank, 3)
        assert len(box.alive("run")) == 3 and len(box.members("run")["nodes"]) == 3
        end_machine(ranks[1], three.runtimes[1], signal.SIGTERM)  # it has time for a word
        wait_until(lambda: len(box.alive("run")) == 2, 60, "the machine that left to be gone")
        assert way.asked.count("lease/revoke") == 1  # its lease has not just run out
        end_machine(ranks[2], three.runtimes[2])
        wait_until(lambda: len(box.alive("run")) == 1, 60, "the lease to run out")
        ranks.append(start_alone(three, 1, {**job, "epochs": 1}, env))
        lines, _ = finish(ranks[3])
        check_epochs([lines], packed, 1)
        assert len(box.members("run")["nodes"]) == 3  # it took a place that was free
        assert peer_bytes(lines) > 0
    finally:
        way.close()
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.communicate()


def test_all_datasets_of_a_machine_are_told_and_what_is_too_many_is_said(lt, blobs, runtime, etcd, run_leat):
    """The 33rd is told as the first is; from the 257th on etcd is not told, and everybody else is."""
    from leat import job as words

    box = etcd()
    loader = lt.Loader(blobs.url, fields={"x": lt.bytes("bin")}, batch_size=4, job=box.url("run"), timeout=60)
    next(iter(loader))
    (own,) = box.alive("run")
    service = words.service(box.url("run"))

    def announce(n):
        host, _, port = own.rpartition(":")
        said = {"ask": "etcd", "etcd": service, "address": host, "port": int(port), "set": f"{n:016x}"}
        return json.loads(loader._core.confer(json.dumps(said)))

    def told():
        return set(box.keys("run")[f"/alive/{own}"]["sets"])

    for n in range(40):
        assert announce(n)["problem"] == ""
    wait_until(lambda: len(told()) == 41, 60, "41 datasets to be told")
    wait_until(lambda: all(announce(n)["in"] for n in range(40)), 60, "the agent to see it")
    assert loader.stats()["job_problem"] == ""
    answers = [announce(n) for n in range(300)]
    assert not any(answer["problem"] for answer in answers[:255])
    assert all(
        re.search(r"reads \d+ datasets in one job, and etcd is told of 256", a["problem"]) for a in answers[257:]
    )
    wait_until(lambda: len(told()) == 256, 60, "256 datasets to be told")
    assert "etcd is told of 256" in loader.stats()["job_problem"]
    assert "etcd is told of 256" in run_leat("job", env={"LEAT_RUNTIME_DIR": runtime.folder}, status=0).stdout
    assert runtime.log().count("etcd is told of 256") == 1
    loader.close()


def test_two_jobs_in_one_etcd_do_not_meet(bucket, machines, etcd):
    box = etcd()
    url, env, _, packed = bucket()
    both = machines(2)
    job = {"url": url, "epochs": 2, "pause": 0.02}
    ranks = [start_alone(both, i, {**job, "loader": {"job": box.url(f"job{i}")}}, env) for i in range(2)]
    lines = [finish(rank)[0] for rank in ranks]
    for each in lines:
        check_epochs([each], packed, 2)
        assert peer_bytes(each) == 0
    one, other = (box.members(f"job{i}") for i in range(2))
    assert one["token"] != other["token"] and one["key"] != other["key"]
    assert len(one["nodes"]) == len(other["nodes"]) == 1


def test_two_jobs_whose_names_begin_alike_do_not_end_each_other(lt, blobs, runtime, etcd, run_leat):
    """One agent in both: the younger generation of one is none of the other."""
    box = etcd()
    names = ["n" * 70 + end for end in "ab"]

    def begin(name):
        loader = lt.Loader(blobs.url, fields={"x": lt.bytes("bin")}, batch_size=4, job=box.url(name), timeout=60)
        next(iter(loader))
        return loader

    first = begin(names[0])
    box.put_members(names[1], {**box.members(names[0]), "generation": 5, "token": "0" * 64})
    second = begin(names[1])
    found = jobs_of(run_leat, runtime)
    first.close()
    second.close()
    assert sorted(job["generation"] for job in found) == [1, 6] and not any(job["over"] for job in found)


def test_zones_are_memberships_of_their_own(bucket, machines, etcd):
    box = etcd()
    url, env, _, packed = bucket()
    three = machines(3)
    job = {"url": url, "pause": 0.05, "loader": {"job": box.url("run")}}
    ranks = [start_alone(three, i, job, {**env, "LEAT_JOB_ZONE": "/b" if i == 1 else "ab/"}) for i in range(3)]
    lines = [finish(rank)[0] for rank in ranks]
    for each in lines:
        check_epochs([each], packed, 1)
    assert peer_bytes(lines[1]) == 0 and peer_bytes(lines[0]) + peer_bytes(lines[2]) > 0
    assert len(box.members("run@ab%2F")["nodes"]) == 2 and len(box.members("run@%2Fb")["nodes"]) == 1
    assert box.members("run") is None


@pytest.mark.parametrize("data", ["lost", pytest.param("kept", marks=pytest.mark.long)])
def test_an_etcd_that_goes_away_and_comes_back(data, bucket, machines, etcd):
    box = etcd(own=True)
    url, env, _, packed = bucket()
    both = machines(2)
    job = {"url": url, "epochs": 5, "pause": 0.02, "loader": {"job": box.url("run")}}
    ranks = both.start(job, env)
    first = wait_for_lines(ranks[0], 5)
    before = box.members("run")
    box.kill()
    if data == "lost":
        box.lose_data()
    wait_until(lambda: "go on as they are" in both.runtimes[0].log(), 60, "the outage to be said")
    box.start()
    wait_until(lambda: "etcd serves again" in both.runtimes[0].log(), 60, "etcd to be found again")
    wait_until(lambda: len(box.alive("run")) == 2, 60, "both machines to be in it again")
    assert box.members("run")["token"] == before["token"]
    lines = [first + finish(ranks[0])[0], finish(ranks[1])[0]]
    check_epochs(lines, packed, 5)
    assert both.runtimes[0].log().count("go on as they are") == 1


def test_an_endpoint_that_falls_silent_is_left_for_another(bucket, machines, etcd):
    """A look and a lease were asked of it at the same time: what comes of the second must not lead back there."""
    box = etcd()
    url, env, _, _ = bucket()
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(contextlib.closing(Way(box.port))) for _ in range(2))
        job = {
            "url": url,
            **ENDLESS,
            "loader": {"job": box.url("run", hosts=f"127.0.0.1:{first.port},127.0.0.1:{second.port}")},
        }
        (running,) = stack.enter_context(trainings(machines(1), job, env))
        running.wait_for_more(5)
        wait_until(lambda: "watch" in first.asked, 60, "the first to be watched")
        first.falls = True
        box.put("run", "/alive/10.255.255.1:1", "{}")  # something to look at
        wait_until(lambda: first.silent, 60, "the first to be asked")
        wait_until(lambda: second.asked, 60, "the second to be asked")
        before = len(first.asked)
        wait_until(lambda: second.asked.count("lease/keepalive") > 2, 60, "the second to keep the lease")
        assert len(first.asked) == before


def test_an_etcd_that_is_not_there_is_said_and_the_training_goes_on(bucket, machines):
    url, env, _, packed = bucket()
    both = machines(2)
    ranks = both.start({"url": url, "epochs": 1, "loader": {"job": f"etcd://127.0.0.1:{free_port()}/run"}}, env)
    done = [finish(rank) for rank in ranks]
    check_epochs([lines for lines, _ in done], packed, 1)
    assert "the machines of this job do not share all that they fetch" in done[0][1]
    assert re.search(r"etcd at 127\.0\.0\.1:\d+: .*refused", done[0][1])
    assert "refused" not in done[1][1]


def test_an_etcd_that_comes_later_is_entered_by_who_reads_already(bucket, machines, etcd):
    box = etcd(own=True)
    box.kill()
    url, env, _, packed = bucket()
    job = {"url": url, **ENDLESS, "loader": {"job": box.url("run"), "ram": "2mib"}}
    with trainings(machines(2), job, env) as running:
        for each in running:
            each.wait_for_more(5)
        box.start()
        wait_until(lambda: len(box.alive("run")) == 2, 60, "both machines to enter")
        for each in running:
            each.wait_for_more(130)
    for each in running:
        each.check(packed)
        assert peer_bytes([line for line in each.lines if "done" in line]) > 0


def test_one_that_was_away_too_long_is_refused_until_it_enters_anew(bucket, machines, etcd, run_leat):
    """All leases have run out and a newcomer has made new secrets: the old ones are good for nothing any more."""
    box = etcd()
    url, env, _, _ = bucket()
    both = machines(2)
    job = {"url": url, "epochs": 80, "pause": 0.05, "loader": {"job": box.url("run")}}
    ranks = [start_alone(both, 0, job, env)]
    try:
        wait_for_lines(ranks[0], 5)
        old = box.members("run")
        both.runtimes[0].kill_agents(signal.SIGSTOP)
        wait_until(lambda: not box.alive("run"), 60, "the lease to run out")
        ranks.append(start_alone(both, 1, job, env))
        wait_for_lines(ranks[1], 5)
        new = box.members("run")
        assert new["generation"] == old["generation"] + 1 and new["token"] != old["token"]
        both.runtimes[0].kill_agents(signal.SIGCONT)
        wait_until(lambda: len(box.alive("run")) == 2, 60, "the old one to enter the new membership")
        assert box.members("run")["token"] == new["token"]
        wait_until(
            lambda: any(j["generation"] == 2 and not j["over"] for j in jobs_of(run_leat, both.runtimes[0])),
            60,
            "the agent to serve again",
        )
        assert "generation 1 is over" in both.runtimes[0].log()
    finally:
        both.runtimes[0].kill_agents(signal.SIGCONT)
        for rank in ranks:
            rank.kill()
            rank.communicate()


@pytest.mark.parametrize("value", ["nothing of ours", '{"id": "0123456789abcdef", "sets": ["later"]}'])
def test_a_record_that_cannot_be_read_keeps_its_place(value, bucket, machines, etcd):
    """A later release's, say. Its machine is there, and nobody is kept out by it."""
    box = etcd()
    stranger = "10.255.255.1:1"
    box.put("run", f"/alive/{stranger}", value)
    url, env, _, packed = bucket()
    both = machines(2)
    job = {"url": url, "epochs": 1, "pause": 0.02, "loader": {"job": box.url("run")}}
    lines, stderr = finish(start_alone(both, 0, job, env))
    check_epochs([lines], packed, 1)
    assert "do not share" not in stderr
    ours = [node for node, _ in box.members("run")["nodes"]]
    token = box.members("run")["token"]
    assert len(ours) == 1 and stranger not in ours
    both.runtimes[0].kill_agents(signal.SIGKILL)
    box.put("run", f"/alive/{ours[0]}", value)
    lines, _ = finish(start_alone(both, 1, job, env))
    check_epochs([lines], packed, 1)
    assert box.members("run")["nodes"][0][0] == ours[0]  # not given away
    assert len(box.members("run")["nodes"]) == 2 and box.members("run")["token"] == token


@pytest.mark.long
def test_two_machines_with_one_address_are_told(bucket, machines, etcd):
    """The second cannot bind it on this host; in namespaces it can."""
    box = etcd()
    url, env, _, packed = bucket()
    both = machines(2)
    port = free_port()
    job = {"url": url, "epochs": 3, "pause": 0.02, "loader": {"job": box.url("run")}}
    env["LEAT_JOB_ADDRESS"] = f"127.0.0.1:{port}"
    first = start_alone(both, 0, job, env)
    begun = wait_for_lines(first, 3)
    lines, stderr = finish(start_alone(both, 1, {**job, "epochs": 1}, env))
    check_epochs([lines], packed, 1)
    assert "in use" in stderr
    check_epochs([begun + finish(first)[0]], packed, 3)


def test_a_machine_that_the_others_cannot_reach_is_said_to_be_so(bucket, machines, network, etcd):
    net = network(2)
    box = etcd(host=net.host)
    url, env, server, packed = bucket("--bind", "0.0.0.0", "--access-key", "test", "--secret-key", "test-secret")
    env["AWS_ENDPOINT_URL"] = f"http://{net.host}:{server.port}"
    env["LEAT_JOB_ADDRESS"] = ":7700"
    both = machines(2, netns=net.names)
    net.drop(1, "tcp dport 7700", hook="input")  # as behind NAT
    job = {"url": url, "epochs": 1, "pause": 0.05, "loader": {"job": box.url("run")}}
    ranks = both.start(job, {**env, "GLOO_SOCKET_IFNAME": "eth0"}, master=net.address(0))
    lines = [finish(rank, 120)[0] for rank in ranks]
    check_epochs(lines, packed, 1)
    assert re.search(
        rf"machine \d of the job \({net.address(1)}:7700\) does not serve: .*NAT.*LEAT_JOB_ADDRESS",
        both.runtimes[0].log(),
    )
    assert peer_bytes(lines[1]) > 0  # it reaches the others


@pytest.mark.skipif(bool(PRELOAD), reason="the sanitizer has to be the first library")
def test_a_clock_that_jumps_changes_nothing(bucket, machines, etcd, tmp_path):
    """Leases are etcd's, waits are not by the clock on the wall, and certificates are compared by their keys alone."""
    library = tmp_path / "clock_jump.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, POOL.with_name("clock_jump.c")], check=True)
    box = etcd()
    _, env, _, packed = bucket()
    both = machines(2)
    clock = tmp_path / "clock"
    clock.write_text("0")
    jumps = {"LD_PRELOAD": str(library), "CLOCK_JUMP": str(clock)}
    job = {"url": str(packed.path), **ENDLESS, "loader": {"job": box.url("run"), "ram": "2mib"}}
    with trainings(both, job, env, more=[{}, jumps]) as running:
        for days in (0, 400, -400):
            clock.write_text(str(days * 86400))
            for each in running:
                each.wait_for_more(40)
        assert len(box.alive("run")) == 2
    for each in running:
        each.check(packed)
        done = [line for line in each.lines if "done" in line]
        assert done and peer_bytes(done) > 0
    logs = both.runtimes[0].log() + both.runtimes[1].log()
    assert not re.search("certificate|SSL|TLS|expired|lease", logs), logs


@pytest.mark.skipif(bool(PRELOAD), reason="the interpreter's own leaks would be reported")
def test_an_agent_in_a_container_beside_the_training_serves_it(bucket, runtime, leat_bin, etcd, tmp_path):
    """As examples/kubernetes/train-shared.yaml has it: another process namespace, a common folder, a fixed port."""
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no process namespaces here")
    box = etcd()
    url, env, server, packed = bucket()
    folder = tempfile.mkdtemp(prefix="leat-m-", dir="/tmp")
    address = f"127.0.0.1:{free_port()}"
    env = {**runtime.env, **env, "LEAT_RUNTIME_DIR": f"{folder}/agent", "PYTHONPATH": str(PYTHON_BUILD / "python")}
    agent = subprocess.Popen([*inside, leat_bin, "agent", "run", "--linger", "8760h"], env=env, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: list(Path(folder).glob("agent/*")), 60, "the agent to listen")
        more = {"LEAT_JOB": box.url("run"), "LEAT_JOB_ADDRESS": address}
        if PRELOAD:
            more["LD_PRELOAD"] = PRELOAD
        for _ in range(2):  # the training's container starts again, the agent's does not
            job = json.dumps({"url": url})
            lines, _ = finish(subprocess.Popen([sys.executable, str(POOL), job], env={**env, **more}, text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE))  # fmt: skip
            check_epochs([lines], packed, 1)
            assert box.alive("run") == [address]
        assert server.stats()["bytes_sent"] <= 1.02 * packed.bytes + 2 * 8192  # the second time it was all there
        assert agent.poll() is None
    finally:
        agent.kill()
        agent.communicate()
        shutil.rmtree(folder, ignore_errors=True)


# In numbers


def slices(short, each):
    """A few in every run; ten times `each`, by other draws, in the long ones."""
    return [(short, 0), *(pytest.param(each, seed, marks=pytest.mark.long) for seed in range(1, 11))]


@pytest.mark.parametrize(("times", "seed"), slices(3, 20))
def test_machines_are_killed_and_come_back(times, seed, bucket, machines, etcd):
    """Each kill is a loss and each start a join. Three machines, of which one is killed at a random moment."""
    box = etcd()
    url, env, server, packed = bucket()
    draw = random.Random(seed)
    with trainings(machines(3), {"url": url, **ENDLESS, "loader": {"job": box.url("run")}}, env) as running:
        for each in running:
            each.wait_for_more(100)  # an epoch and more: all have what they own
        before = server.stats()["bytes_sent"]
        for _ in range(times):
            victim = draw.choice(running)
            time.sleep(draw.uniform(0, 0.3))
            victim.kill()
            for each in running:
                if each is not victim:
                    each.wait_for_more(draw.randint(1, 40))
            victim.begin()
            victim.wait_for_more(draw.randint(1, 80))
        for each in running:
            each.wait_for_more(65)  # the epoch in which it was killed last
        grown = (server.stats()["bytes_sent"] - before) / packed.bytes
    for each in running:
        each.check(packed)
    # What is lost with a machine is what it owned; that, and what it reads until it knows the others, is fetched once more.
    assert grown <= times * 1.1, f"{grown:.2f} times the dataset for {times} machines"
    print(f"{times} machines killed: {grown / times:.2f} of the dataset for each")


@pytest.mark.parametrize(("times", "seed"), slices(2, 10))
def test_partitions_that_heal(times, seed, bucket, machines, network, etcd):
    """Between two machines, or between one of them and etcd; the bucket is there for all."""
    net = network(2)
    box = etcd(host=net.host)
    url, env, server, packed = bucket("--bind", "0.0.0.0", "--access-key", "test", "--secret-key", "test-secret")
    env["AWS_ENDPOINT_URL"] = f"http://{net.host}:{server.port}"
    draw = random.Random(seed)
    job = {"url": url, **ENDLESS, "loader": {"job": box.url("run"), "ram": "2mib"}}
    with trainings(machines(2, netns=net.names), job, env) as running:
        for each in running:
            each.wait_for_more(20)
        for i in range(times):
            own, other = i % 2, net.address(1 - i % 2)
            net.drop(own, f"ip daddr {other}" if draw.random() < 0.6 else f"tcp dport {box.port}")
            time.sleep(draw.uniform(0.05, 1.5 * LEASE_S if seed else 1))
            net.drop_nothing(own)
            for each in running:
                each.wait_for_more(draw.randint(1, 20))
        wait_until(lambda: len(box.alive("run")) == 2, 120, "both machines to be in it again")
        for each in running:
            each.wait_for_more(130)
    for each in running:
        each.check(packed)
