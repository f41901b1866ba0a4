"""Keys from every place that AWS's own clients know, and what is wrong with each: botocore reads the same beside us."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from datetime import datetime

import pytest
from conftest import assert_no_report
from faulty_server import status
from keys_box import KeysBox, stamp

pytestmark = pytest.mark.every_case

EXPIRED = status(400, "ExpiredToken", "The provided token has expired.")


@pytest.fixture
def box():
    b = KeysBox()
    yield b
    b.stop()


@pytest.fixture
def server(faulty):
    s = faulty()
    s.objects["bucket/key"] = b"hello"
    return s


@pytest.fixture
def home(clean_env):
    from pathlib import Path

    (Path(clean_env["HOME"]) / ".aws").mkdir(exist_ok=True)
    return Path(clean_env["HOME"])


def key_of(request):
    return request.headers.get("authorization", "").partition("Credential=")[2].split("/")[0]


def program(home, text):
    path = home / "give-keys"
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def write_sso_token(home, name, expires):
    folder = home / ".aws" / "sso" / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    token = {
        "accessToken": "an-sso-token",
        "expiresAt": stamp(expires),
        "startUrl": "https://start.test/",
        "region": "eu-west-1",
    }
    (folder / (hashlib.sha1(name.encode()).hexdigest() + ".json")).write_text(json.dumps(token))


STATIC = "[base]\naws_access_key_id = AKIABASE\naws_secret_access_key = base-secret\n"
ROLE = "role_arn = arn:aws:iam::123456789012:role/x\n"


def set_environment(home, box):
    return {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}


def set_role(home, box):
    (home / ".aws" / "credentials").write_text(STATIC)
    text = (
        f"[profile p]\n{ROLE}source_profile = base\nexternal_id = an id\nduration_seconds = 900\nregion = us-west-2\n"
    )
    (home / ".aws" / "config").write_text(text)
    return {"AWS_PROFILE": "p"}


def set_chain(home, box):
    (home / ".aws" / "credentials").write_text(STATIC)
    text = f"[profile p]\n{ROLE}source_profile = q\n[profile q]\n{ROLE}source_profile = base\n"
    (home / ".aws" / "config").write_text(text)
    return {"AWS_PROFILE": "p"}


def set_role_of_environment(home, box):
    (home / ".aws" / "config").write_text(f"[profile p]\n{ROLE}credential_source = Environment\n")
    # A client takes keys in the environment themselves unless the profile is said by name.
    return {**set_environment(home, box), "SAID": "p"}


def set_role_of_instance(home, box):
    (home / ".aws" / "config").write_text(f"[profile p]\n{ROLE}credential_source = Ec2InstanceMetadata\n")
    return {"AWS_PROFILE": "p", "AWS_EC2_METADATA_DISABLED": None, "AWS_EC2_METADATA_SERVICE_ENDPOINT": box.url}


def set_web_identity(home, box):
    (home / "token").write_text("a-web-token")
    return {"AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "token"), "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x"}


def set_web_identity_profile(home, box):
    (home / "token").write_text("a-web-token")
    (home / ".aws" / "config").write_text(f"[profile p]\n{ROLE}web_identity_token_file = {home}/token\n")
    return {"AWS_PROFILE": "p"}


def set_sso(home, box):
    write_sso_token(home, "corp", time.time() + 3600)
    (home / ".aws" / "config").write_text(
        "[profile p]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Reader\n"
        "[sso-session corp]\nsso_start_url = https://start.test/\nsso_region = eu-west-1\n"
    )
    return {"AWS_PROFILE": "p"}


def set_sso_legacy(home, box):
    write_sso_token(home, "https://start.test/", time.time() + 3600)
    (home / ".aws" / "config").write_text(
        "[default]\nsso_start_url = https://start.test/\nsso_region = eu-west-1\n"
        "sso_account_id = 123456789012\nsso_role_name = Reader\n"
    )
    return {}


def set_process(home, box):
    keys = {"Version": 1, "AccessKeyId": "ASIAPROCESS", "SecretAccessKey": "s", "SessionToken": "t"}
    path = program(
        home, f"import sys\nassert sys.argv[1:] == ['an argument', 'b'], sys.argv\nprint('{json.dumps(keys)}')"
    )
    (home / ".aws" / "config").write_text(f'[profile p]\ncredential_process = {path} "an argument" b\n')
    return {"AWS_PROFILE": "p"}


def set_container(home, box):
    return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": box.url + "/keys", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a-token"}


def set_container_file(home, box):
    (home / "token").write_text("a-token")
    return {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": box.url + "/keys",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(home / "token"),
    }


def set_instance(home, box):
    return {"AWS_EC2_METADATA_DISABLED": None, "AWS_EC2_METADATA_SERVICE_ENDPOINT": box.url}


PROVIDERS = {
    "environment": (set_environment, "AKIAENV", []),
    "role": (set_role, "ASIASTS", ["sts"]),
    "chain": (set_chain, "ASIASTS", ["sts", "sts"]),
    "role-of-environment": (set_role_of_environment, "ASIASTS", ["sts"]),
    "role-of-instance": (set_role_of_instance, "ASIASTS", ["imds", "imds", "imds", "sts"]),
    "web-identity": (set_web_identity, "ASIASTS", ["sts"]),
    "web-identity-profile": (set_web_identity_profile, "ASIASTS", ["sts"]),
    "sso": (set_sso, "ASIASSO", ["sso"]),
    "sso-legacy": (set_sso_legacy, "ASIASSO", ["sso"]),
    "process": (set_process, "ASIAPROCESS", []),
    "container": (set_container, "ASIAECS", ["container"]),
    "container-file": (set_container_file, "ASIAECS", ["container"]),
    "instance": (set_instance, "ASIAIMDS", ["imds", "imds", "imds"]),
}


def surroundings(home, box, server, name):
    """The variables for a provider, and the options that name a profile."""
    env = {
        "AWS_ENDPOINT_URL_S3": server.url,
        "AWS_ENDPOINT_URL_STS": box.url,
        "AWS_ENDPOINT_URL_SSO": box.url,
        **PROVIDERS[name][0](home, box),
    }
    said = env.pop("SAID", None)
    return env, ["--profile", said] if said else []


def without_time(headers):
    """What of a request must be the same for everyone who asks."""
    kept = ("authorization", "x-amz-sso_bearer_token", "x-aws-ec2-metadata-token", "x-amz-security-token")
    lower = {k.lower(): v for k, v in headers.items()}
    found = {k: lower[k] for k in kept if k in lower}
    if found.get("authorization", "").startswith("AWS4"):
        found["authorization"] = found["authorization"].partition("Credential=")[2].partition("/")[0]
    return found


def key_of_botocore(monkeypatch, env, profile=None):
    """The key that it finds in this environment."""
    import botocore.credentials
    import botocore.session
    import botocore.tokens

    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", env)
        for provider in (botocore.credentials.SSOProvider, botocore.tokens.SSOTokenProvider):  # set when it is imported
            patched.setattr(provider, "_SSO_TOKEN_CACHE_DIR", f"{env['HOME']}/.aws/sso/cache")
        return botocore.session.Session(profile=profile).get_credentials().get_frozen_credentials().access_key


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_gives_its_keys_as_it_does_to_botocore(
    run_leat, clean_env, home, box, server, monkeypatch, name
):
    env, said = surroundings(home, box, server, name)
    run_leat("cat", *said, "s3://bucket/key", env=env, status=0)
    used = {key_of(r) for r in server.requests}
    assert len(used) == 1, "one lookup for all requests"
    assert used.pop().rstrip("0123456789") == PROVIDERS[name][1]
    ours = [(n, m, p, without_time(h)) for n, m, p, h, _ in box.requests]
    assert [n for n, *_ in ours] == PROVIDERS[name][2]
    assert all("x-amz-security-token" in r.headers for r in server.requests)
    box.requests.clear()
    full = {**clean_env, **{k: v for k, v in env.items() if v is not None}, "AWS_DEFAULT_REGION": "us-west-2"}
    for gone in [k for k, v in env.items() if v is None]:
        full.pop(gone, None)
    assert key_of_botocore(monkeypatch, full, *said[1:]).rstrip("0123456789") == PROVIDERS[name][1]
    theirs = [(n, m, p, without_time(h)) for n, m, p, h, _ in box.requests]

    def comparable(requests):  # the numbers in keys and tokens are those of each run
        return [(n, m, p.split("?")[0], {k: v.rstrip("0123456789") for k, v in h.items()}) for n, m, p, h in requests]

    assert comparable(ours) == comparable(theirs)


def test_a_role_is_asked_for_as_the_profile_says(run_leat, home, box, server):
    env, _ = surroundings(home, box, server, "role")
    run_leat("cat", "s3://bucket/key", env=env, status=0)
    from urllib.parse import parse_qs

    (_, _, _, headers, body) = box.requests[0]
    form = {k: v[0] for k, v in parse_qs(body).items()}
    assert form.pop("RoleSessionName").startswith("leat-")
    assert form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": "arn:aws:iam::123456789012:role/x",
        "ExternalId": "an id",
        "DurationSeconds": "900",
    }
    assert "/us-west-2/sts/aws4_request" in headers["Authorization"]


def one_line(done, *words):
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], done.stderr
    for secret in ("secret", "a-token", "an-sso-token", "a-web-token", "an-imds-token"):
        assert secret not in done.stderr


WRONG = {
    "role-alone": (f"[profile p]\n{ROLE}", "source_profile"),
    "both": (f"[profile p]\n{ROLE}source_profile = p\ncredential_source = Environment\n", "both"),
    "no-source": (f"[profile p]\n{ROLE}source_profile = gone\n", "'gone'"),
    "circle": (
        f"[profile p]\n{ROLE}source_profile = q\n[profile q]\n{ROLE}source_profile = p\n",
        "leads back to itself",
    ),
    "mfa": (f"[profile p]\n{ROLE}source_profile = p\nmfa_serial = arn:x\n", "mfa_serial"),
    "odd-source": (f"[profile p]\n{ROLE}credential_source = Moon\n", "Moon"),
    "sso-half": ("[profile p]\nsso_account_id = 1\nsso_role_name = r\n", "sso_start_url"),
    "sso-no-session": ("[profile p]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n", "sso_start_url"),
    "sso-nobody": (
        "[profile p]\nsso_start_url = https://x\nsso_region = r\nsso_account_id = 1\nsso_role_name = r\n",
        "aws sso login --profile p",
    ),
    "process-gone": ("[profile p]\ncredential_process = /nonexistent/program\n", "/nonexistent/program"),
    "process-fails": ("[profile p]\ncredential_process = sh -c 'exit 3'\n", "status 3"),
    "process-nonsense": ("[profile p]\ncredential_process = echo hello\n", "credential_process"),
    "process-version": ("[profile p]\ncredential_process = echo '{\"Version\": 2}'\n", "Version"),
    "process-quotes": ("[profile p]\ncredential_process = echo 'x\n", "quotes"),
    "web-no-file": (f"[profile p]\n{ROLE}web_identity_token_file = /nonexistent/token\n", "/nonexistent/token"),
    "accelerate": ("[profile p]\nregion = us-east-1\ns3 =\n    use_accelerate_endpoint = true\n", "accelerate"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_profile_that_cannot_be_honoured_is_an_error_and_nothing_is_asked(run_leat, home, box, server, name):
    text, word = WRONG[name]
    (home / ".aws" / "config").write_text(text)
    env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ENDPOINT_URL_STS": box.url, "AWS_ENDPOINT_URL_SSO": box.url}
    done = run_leat("cat", "--profile", "p", "s3://bucket/key", env=env)
    assert done.returncode != 0
    one_line(done, word)
    assert server.requests == []


SERVICE = {"role": "sts", "web-identity": "sts", "sso": "sso", "container": "container", "instance": "imds"}


REFUSALS = [(403, "no"), (500, "oops"), (200, "nonsense"), (200, ""), (200, "{}"), (404, "")]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        # Each service has a parser of its own; what becomes of an answer's code is the same for all.
        pytest.param(name, answer, marks=() if answer[1] in ("no", "{}") or name == "role" else pytest.mark.long)
        for name in SERVICE
        for answer in REFUSALS
    ],
)
def test_a_service_that_refuses_or_talks_nonsense_is_said_in_one_line(run_leat, home, box, server, name, answer):
    env, said = surroundings(home, box, server, name)
    box.fail[SERVICE[name]] = answer
    done = run_leat("cat", *said, "s3://bucket/key", env=env)
    assert done.returncode in (2, 3, 4, 5), done.stderr
    one_line(done)
    assert server.requests == [], "never with other keys, or with none"


@pytest.mark.parametrize("name", ["container", "instance"])
def test_a_service_of_the_machine_that_does_not_answer_is_not_waited_for(run_leat, home, box, server, name):
    env, said = surroundings(home, box, server, name)
    box.delay = 600
    one_line(run_leat("cat", *said, "s3://bucket/key", env=env, status=5))


def test_an_instance_without_a_role_is_anonymous(run_leat, home, box, server):
    env, _ = surroundings(home, box, server, "instance")
    real = box.imds
    box.imds = lambda method, parts, *rest: (404, "") if "security-cred" in parts.path else real(method, parts, *rest)
    run_leat("cat", "s3://bucket/key", env=env, status=0)
    assert {key_of(r) for r in server.requests} == {""}


def test_version_one_of_the_metadata_is_never_used(run_leat, home, box, server):
    env, _ = surroundings(home, box, server, "instance")
    real = box.imds
    box.imds = lambda method, *rest: (403, "") if method == "PUT" else real(method, *rest)
    one_line(run_leat("cat", "s3://bucket/key", env=env, status=4), "IMDSv2")
    assert [m for _, m, *_ in box.requests] == ["PUT"]


# In namespaces with a given firmware vendor, where the metadata address belongs to a server that counts connections.
A_MACHINE = """
import os, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "none", "/sys/class"], check=True)
os.makedirs("/sys/class/dmi/id")
with open("/sys/class/dmi/id/sys_vendor", "w") as file:
    file.write(sys.argv[1])
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["ip", "addr", "add", "169.254.169.254/32", "dev", "lo"], check=True)
from faulty_server import FaultyServer
metadata, server = FaultyServer(host="169.254.169.254", port=80), FaultyServer()
server.objects["bucket/key"] = b"hello"
env = {**os.environ, "AWS_ENDPOINT_URL": server.url}
done = subprocess.run([sys.argv[2], "cat", "s3://bucket/key"], env=env, stdout=subprocess.PIPE)
print(metadata.connections, done.returncode, done.stdout.decode(), flush=True)
os._exit(0)
"""


def can_be_a_machine():
    inside = "mount -t tmpfs none /sys/class && ip link set lo up && ip addr add 169.254.169.254/32 dev lo"
    try:
        return subprocess.run(["unshare", "-rmn", "sh", "-c", inside], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not can_be_a_machine(), reason="no namespaces here in which /sys can be replaced")
def test_a_machine_that_is_no_instance_is_anonymous_and_asks_no_metadata(leat_bin, clean_env):
    del clean_env["AWS_EC2_METADATA_DISABLED"]
    clean_env["PYTHONPATH"] = os.path.dirname(__file__)

    def on(vendor):
        command = ["unshare", "-rmn", sys.executable, "-c", A_MACHINE, vendor, leat_bin]
        done = subprocess.run(command, env=clean_env, capture_output=True, text=True, timeout=60, check=False)
        assert_no_report("leat cat", done.returncode, done.stderr)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert on("QEMU") == ["0", "0", "hello"]
    assert int(on("Amazon EC2")[0]) > 0


def test_the_containers_token_goes_to_no_other_host(run_leat, server):
    env = {"AWS_ENDPOINT_URL": server.url, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a-token"}
    for url in (
        "http://example.test/keys",
        "http://10.0.0.1/keys",
        "http://127.0.0.1.example.test/",
        "ftp://localhost/",
    ):
        done = run_leat("cat", "s3://bucket/key", env={**env, "AWS_CONTAINER_CREDENTIALS_FULL_URI": url}, status=2)
        one_line(done, "AWS_CONTAINER_CREDENTIALS_FULL_URI")


@pytest.mark.parametrize("expires", ['"soon"', "17", '"2026-13-45T00:00:00Z"'])
def test_a_time_that_is_none_is_refused(run_leat, home, box, server, expires):
    env, _ = surroundings(home, box, server, "container")
    box.fail["container"] = (200, f'{{"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": {expires}}}')
    one_line(run_leat("cat", "s3://bucket/key", env=env, status=2), "expiry time")
    assert server.requests == []


def test_an_expired_sign_on_says_how_to_sign_on(run_leat, home, box, server):
    env, _ = surroundings(home, box, server, "sso")
    write_sso_token(home, "corp", time.time() - 10)
    one_line(run_leat("cat", "s3://bucket/key", env=env, status=4), "aws sso login --profile p")
    assert box.requests == []


def test_endpoints_of_services_are_found(run_leat, home, server):
    (home / ".aws" / "config").write_text(
        f"[profile p]\nservices = mine\nendpoint_url = http://127.0.0.1:1\n[services mine]\ns3 =\n    endpoint_url = {server.url}\n"
    )
    run_leat("cat", "--profile", "p", "--no-sign-request", "s3://bucket/key", status=0)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("env", "host"),
    [
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, "bucket.s3-fips.eu-west-1.amazonaws.com"),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "bucket.s3.dualstack.eu-west-1.amazonaws.com"),
    ],
)
def test_fips_and_dual_stack_are_honoured_or_refused(run_leat, env, host):
    # No name leads anywhere but to this closed port: the error says which host was meant.
    proxy = {"https_proxy": "http://127.0.0.1:1", "AWS_REGION": "eu-west-1", "LEAT_LOG": "debug"}
    done = run_leat("cat", "--no-sign-request", "--attempts", 1, "s3://bucket/key", env={**env, **proxy}, status=5)
    assert ("FIPS" if "FIPS" in str(env) else "dual-stack") in done.stderr
    one_line(
        run_leat("cat", "s3://bucket/key", env={**env, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, status=2),
        "only one of them",
    )
    one_line(run_leat("cat", "s3://bucket/key", env=env, status=2), "AWS_REGION")


RENEWING = ["role", "web-identity", "sso", "container", "instance"]


# twenty seconds each
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "role" else pytest.mark.long) for n in RENEWING])
def test_keys_that_expire_in_a_transfer_are_renewed_early_and_once(run_leat, home, box, server, name):
    """Keys of six seconds' life, a copy of many: all is signed with keys that live, and a renewal is one lookup."""
    box.life = 6
    env, said = surroundings(home, box, server, name)
    for i in range(60):
        server.objects[f"bucket/many/{i:03}"] = b"x" * 100
    late = []

    def slow(exchange):
        signed = datetime.strptime(exchange.request.headers["x-amz-date"], "%Y%m%dT%H%M%S%z").timestamp()
        if box.given.get(key_of(exchange.request), 0) < signed:
            late.append(exchange.request)
            EXPIRED(exchange)
            return
        time.sleep(0.3)
        exchange.server.proper(exchange)

    server.fault(slow)
    done = run_leat("cp", "-rq", *said, "--connections", 2, "s3://bucket/many", home / "to", env=env, status=0)
    assert len(list((home / "to").iterdir())) == 60
    assert done.stderr == ""
    used = {key_of(r) for r in server.requests}
    assert len(used) >= 3, "nine seconds with keys of six"
    assert len(box.given) <= len(used) + 2, "one lookup a renewal"
    assert len(late) <= 1, "no request with a stale signature while keys are available in time"


def test_keys_that_the_server_calls_expired_are_looked_up_once_for_all(run_leat, home, box, server):
    env, _ = surroundings(home, box, server, "container")
    for i in range(40):
        server.objects[f"bucket/many/{i:03}"] = b"x"
    server.fault(EXPIRED, match=lambda r: r.method == "GET" and "list-type" not in r.query and key_of(r).endswith("S1"))
    run_leat("cp", "-rq", "s3://bucket/many", home / "to", env=env, status=0)
    assert len(list((home / "to").iterdir())) == 40
    assert box.names() == ["container", "container"]


def test_keys_that_stay_expired_are_an_error_after_one_lookup(run_leat, home, box, server):
    keys = {"Version": 1, "AccessKeyId": "ASIASAME", "SecretAccessKey": "s", "SessionToken": "t"}
    path = program(home, f"open('{home}/calls', 'a').write('x')\nprint('{json.dumps(keys)}')")
    (home / ".aws" / "config").write_text(f"[profile p]\ncredential_process = {path}\n")
    server.fault(EXPIRED)
    done = run_leat("ls", "--profile", "p", "s3://bucket/", env={"AWS_ENDPOINT_URL": server.url}, status=4)
    one_line(done, "expired")
    assert (home / "calls").read_text() == "xx"
    assert len(server.requests) == 1


def test_a_service_that_is_down_at_renewal_leaves_the_old_keys_in_use(run_leat, home, box, server):
    box.life = 400  # early is 200 s before
    env, _ = surroundings(home, box, server, "instance")
    real = box.respond

    def once(method, path, headers, body):
        answer = real(method, path, headers, body)
        if "the-role" in path:
            box.fail["imds"] = (500, "")
            return answer[0], json.dumps({**json.loads(answer[1]), "Expiration": stamp(time.time() + 2)})
        return answer

    box.respond = once
    for i in range(10):
        server.objects[f"bucket/many/{i:03}"] = b"x"

    def slow(exchange):
        time.sleep(0.4)
        exchange.server.proper(exchange)

    server.fault(slow)
    run_leat("cp", "-rq", "--connections", 1, "s3://bucket/many", home / "to", env=env, status=0)
    assert len(list((home / "to").iterdir())) == 10
