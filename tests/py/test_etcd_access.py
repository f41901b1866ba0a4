"""How a job's machines get at etcd: by which endpoint, as which user, with which certificates; and under torchrun."""

import contextlib
import os
import subprocess

import pytest
from conftest import SANITIZE
from etcd_box import Training, Way, start_alone, trainings
from loading import free_port, wait_until
from machines import check_epochs, check_lengths, finish, jobs_of, keys_of
from test_etcd import ENDLESS, peer_bytes

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")


def add_root(box):
    """From now on etcd wants to know who asks."""
    for path, body in (
        ("user/add", {"name": "root", "password": "pw-root"}),
        ("role/add", {"name": "root"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("enable", {}),
    ):
        box.ask(f"auth/{path}", **body)


def make_certificate(folder):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
         "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip


def test_users_and_certificates(bucket, machines, etcd, tmp_path):
    """As etcd has them; the password is in no log."""
    make_certificate(tmp_path)
    box = etcd(tls=tmp_path)
    add_root(box)
    url, env, _, packed = bucket()
    both = machines(2)
    env["ETCDCTL_CACERT"] = str(tmp_path / "cert.pem")
    job = {"url": url, "epochs": 1, "pause": 0.02}
    ranks = [start_alone(both, i, {**job, "loader": {"job": box.url("run", "root:pw-root")}}, env) for i in range(2)]
    done = [finish(rank) for rank in ranks]
    for lines, _ in done:
        check_epochs([lines], packed, 1)
    assert sum(peer_bytes(lines) for lines, _ in done) > 0
    wrong = start_alone(both, 0, {**job, "loader": {"job": box.url("other", "root:pw-wrong")}}, env)
    lines, stderr = finish(wrong)
    check_epochs([lines], packed, 1)
    assert "authentication failed" in stderr and "do not share" in stderr
    # The right one is not kept out by what the agent was told before.
    right = start_alone(both, 0, {**job, "loader": {"job": box.url("other", "root:pw-root")}}, env)
    lines, told = finish(right)
    check_epochs([lines], packed, 1)
    assert "do not share" not in told
    said = stderr + told + "".join(text for _, text in done) + "".join(runtime.log() for runtime in both.runtimes)
    assert "pw-" not in said


def test_under_torchrun_and_again_at_another_world_size(bucket, machines, etcd, tmp_path):
    """Two machines with a rank each stop in the middle, and go on with two ranks each. The agents stay in the job meanwhile (for
    a minute, which a busy machine may take to start torch), and keep what they have."""
    box = etcd()
    url, env, server, packed = bucket()
    both = machines(2)
    for runtime in both.runtimes:
        runtime.env["LEAT_LINGER"] = "60s"
    job = {"url": url, "loader": {"job": box.url("run")}}
    before = both.torchrun({**job, "stop_at": 9}, env, tmp_path, ranks=1)
    members = box.members("run")
    after = both.torchrun({**job, "state": before[0][-1]["state"]}, env, tmp_path, ranks=2)
    assert [len(before), len(after)] == [2, 4]
    assert sorted(k for each in before + after for k in keys_of(each)) == sorted(packed.known)
    for each in before + after:
        check_lengths(each, packed)
    again = box.members("run")
    assert len(members["nodes"]) == len(again["nodes"]) == 2
    assert max(peer_bytes(each) for each in after) > 0
    stayed = again["token"] == members["token"]
    assert server.stats()["bytes_sent"] <= (1.02 if stayed else 2.04) * packed.bytes + 6 * 8192


def renewals(box, name):
    """A function that says whether every machine has renewed its lease since it was called first: the time left of the same
    lease has grown. One that has run out and was replaced is no renewal: then the new one is waited for."""
    seen, renewed = {}, set()

    def all_renewed():
        alive = box.alive(name)
        for address in alive:
            now = box.left(name, address)
            before = seen.get(address)
            if now and before and now[0] == before[0] and now[1] > before[1]:
                renewed.add(address)
            if now:
                seen[address] = now
        return len(renewed) == len(seen) == 2

    return all_renewed


def test_one_endpoint_after_the_other_with_a_certificate_of_ones_own(bucket, machines, etcd, tmp_path):
    """The first is not there, the second goes away in the middle, the third stays; without a certificate nothing is told."""
    make_certificate(tmp_path)
    box = etcd(tls=tmp_path, client=True)
    url, env, _, packed = bucket()
    both = machines(2)
    full = {**env, "ETCDCTL_CACERT": str(tmp_path / "cert.pem")}
    stranger = {"url": url, "loader": {"job": box.url("other"), "ram": "2mib"}}
    lines, stderr = finish(start_alone(both, 0, stranger, full))
    check_epochs([lines], packed, 1)
    assert "do not share" in stderr and box.members("other") is None
    full["ETCDCTL_CERT"], full["ETCDCTL_KEY"] = (os.path.relpath(tmp_path / f"{name}.pem") for name in ("cert", "key"))
    way = Way(box.port)
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{way.port},127.0.0.1:{box.port}"
    job = {"url": url, **ENDLESS, "loader": {"job": box.url("run", hosts=hosts), "ram": "2mib"}}
    with contextlib.closing(way), trainings(both, job, full) as running:
        for each in running:
            each.wait_for_more(20)
        assert way.taken and len(box.alive("run")) == 2
        token = box.members("run")["token"]
        way.close()
        wait_until(renewals(box, "run"), 120, "both leases to be renewed by the third endpoint")
        wait_until(lambda: len(box.alive("run")) == 2, 60, "both machines to be in it")
        assert box.members("run")["token"] == token
        for each in running:
            each.wait_for_more(65)
    for each in running:
        each.check(packed)
    assert "go on as they are" not in "".join(runtime.log() for runtime in both.runtimes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"CACERT": "none.pem"}, r"ETCDCTL_CACERT=/.*/none\.pem cannot be used for etcd: No such file"),
        ({"CACERT": "garbage.pem"}, r"ETCDCTL_CACERT=.*garbage\.pem cannot be used"),
        ({"CERT": "cert.pem"}, "one is there, the other is not"),
        ({"CERT": "cert.pem", "KEY": "none.pem"}, r"ETCDCTL_KEY=/.*/none\.pem cannot be used for etcd: No such file"),
        ({"CERT": "cert.pem", "KEY": "garbage.pem"}, r"ETCDCTL_KEY=.*garbage\.pem cannot be used"),
        ({"CERT": "cert.pem", "KEY": "other.pem"}, r"ETCDCTL_KEY=.*other\.pem cannot be used"),
        ({"CERT": "cert.pem", "KEY": "locked.pem"}, r"ETCDCTL_KEY=.*locked\.pem cannot be used"),
    ],
    ids=["no-ca", "garbage-ca", "no-key-named", "no-key", "garbage-key", "another-key", "key-with-password"],
)
def test_a_certificate_that_cannot_be_read_is_an_error_at_the_start(given, said, lt, blobs, tmp_path, monkeypatch):
    make_certificate(tmp_path)
    (tmp_path / "garbage.pem").write_text("garbage\n")
    (tmp_path / "more").mkdir()
    make_certificate(tmp_path / "more")
    (tmp_path / "more" / "key.pem").rename(tmp_path / "other.pem")
    subprocess.run(["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", tmp_path / "key.pem", "-out", tmp_path / "locked.pem"],
                   check=True, capture_output=True)  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, file in given.items():
        monkeypatch.setenv(f"ETCDCTL_{name}", file)
    with pytest.raises(lt.errors.InvalidError, match=said):
        lt.Loader(blobs.url, fields={"x": lt.bytes("bin")}, batch_size=4, job="etcds://127.0.0.1:1/run")
    lt.Loader(
        blobs.url, fields={"x": lt.bytes("bin")}, batch_size=4, job="etcd://127.0.0.1:1/run"
    ).close()  # without TLS


def test_names_that_are_too_long_stay_apart(lt, monkeypatch):
    from leat import job

    def names(end):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "r" * 90 + end)
        monkeypatch.setenv("LEAT_JOB_ZONE", "z" * 90 + end)
        return job.name(), job.zone()

    (one, zone), (other, elsewhere) = names("a"), names("b")
    assert one != other and len(one) == 79 and zone != elsewhere and len(zone) == 63
    assert (one, zone) == names("a")


def test_users_that_change_while_a_job_runs(bucket, machines, etcd, run_leat, tmp_path):
    """Signed tokens are of the users as they were: etcd refuses them afterwards, and another one is asked for."""
    subprocess.run(["openssl", "genrsa", "-out", tmp_path / "jwt.pem", "2048"], check=True, capture_output=True)
    subprocess.run(
        ["openssl", "rsa", "-in", tmp_path / "jwt.pem", "-pubout", "-out", tmp_path / "jwt.pub"],
        check=True,
        capture_output=True,
    )
    keys = f"pub-key={tmp_path / 'jwt.pub'},priv-key={tmp_path / 'jwt.pem'}"
    box = etcd(options=["--auth-token", f"jwt,{keys},sign-method=RS256,ttl=10m"])
    add_root(box)
    url, env, _, _ = bucket()
    both = machines(2)
    job = {"url": url, **ENDLESS, "loader": {"job": box.url("run", "root:pw-root")}}
    first = Training(both, 0, job, env)
    later = None
    try:
        first.wait_for_more(5)
        box.log_in("root", "pw-root")
        box.ask("auth/user/add", name="other", password="pw-other")
        box.log_in("root", "pw-root")
        later = Training(both, 1, job, env)  # the first sees it only if it may look
        later.wait_for_more(5)
        wait_until(
            lambda: [len(found["nodes"]) for found in jobs_of(run_leat, both.runtimes[0])] == [2],
            60,
            "the first machine to see the second",
        )
        assert len(box.alive("run")) == 2
    finally:
        first.kill()
        if later:
            later.kill()


def test_a_certificate_that_nobody_vouches_for_is_refused(bucket, machines, etcd, tmp_path):
    make_certificate(tmp_path)
    box = etcd(tls=tmp_path)
    url, env, _, packed = bucket()
    lines, stderr = finish(start_alone(machines(1), 0, {"url": url, "loader": {"job": box.url("run")}}, env))
    check_epochs([lines], packed, 1)
    assert "certificate was refused" in stderr
