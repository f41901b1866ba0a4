"""A clock that is wrong by 20 minutes: where requests are signed with the time, where services that hand out keys are
asked with it, and in when keys are said to end."""

import json
import time
from datetime import datetime
from email.utils import formatdate, parsedate_to_datetime

import pytest
from clouds import AzureCloud, GoogleCloud, xml_error
from command_tools import some_bytes
from keys_box import KeysBox
from test_cloud_keys import AZURE, azure_env, external, google_env, rsa_key, service_account  # noqa: F401 (a fixture)
from test_keys import home, set_container, set_instance, set_role, set_sso, set_web_identity  # noqa: F401 (a fixture)

pytestmark = pytest.mark.every_case

BOTH_WAYS = pytest.mark.parametrize("skew", [-1200, 1200])


@pytest.fixture(params=["gs", "az"])
def place(request):
    """(cloud, URL, environment, what is held there)."""
    if request.param == "gs":
        cloud = GoogleCloud()
        cloud.hmac["GOOG1EXAMPLE"] = "a-secret"
        keys = {"GS_ACCESS_KEY_ID": "GOOG1EXAMPLE", "GS_SECRET_ACCESS_KEY": "a-secret"}
        made = cloud, "gs://box", {"STORAGE_EMULATOR_HOST": cloud.url, **keys}
    else:
        cloud = AzureCloud()
        made = cloud, "az://acct/box", {"AZURE_STORAGE_ENDPOINT": cloud.endpoint, "AZURE_STORAGE_KEY": cloud.key}
    cloud.buckets["box"] = {}
    yield *made, cloud.buckets["box"]
    cloud.stop()


@BOTH_WAYS
def test_a_clock_that_is_wrong_by_20_minutes_is_corrected_by_the_servers(place, skew, run_leat, tmp_path):
    """Signatures hold for a quarter of an hour around the server's own time."""
    cloud, url, env, held = place
    refused = []

    def judge(r):
        text = r.headers.get("x-ms-date")
        at = parsedate_to_datetime(text) if text else datetime.strptime(r.headers["x-goog-date"], "%Y%m%dT%H%M%S%z")
        if abs(at.timestamp() - (time.time() + skew)) < 900:
            return None
        refused.append(r)
        code, headers, body = (
            cloud.error(403, "AuthenticationFailed") if text else xml_error(403, "RequestTimeTooSkewed", "no")
        )
        return (
            code,
            headers | {"Date": formatdate(time.time() + skew, usegmt=True)},
            b"" if r.method == "HEAD" else body,
        )

    cloud.fail.append(judge)
    data = some_bytes(1000)
    (tmp_path / "from").write_bytes(data)
    done = run_leat("cp", tmp_path / "from", f"{url}/k", env=env, status=0)
    assert held["k"].data == data
    assert done.stderr.count("this machine's clock is") == 1
    assert len(refused) == 1
    assert run_leat("cat", f"{url}/k", env=env, status=0, text=False).stdout == data
    assert len(refused) == 2, "once a store"


class Strict(KeysBox):
    """Takes requests that were signed within five minutes of its own time, as STS does."""

    def sts(self, method, parts, headers, body):
        date = headers.get("x-amz-date")
        at = datetime.strptime(date, "%Y%m%dT%H%M%S%z").timestamp() if date else None
        if at and abs(at - time.time() - self.skew) > 300:
            return 403, self.sts_error("SignatureDoesNotMatch", f"Signature expired: {date} is now earlier than …")
        return super().sts(method, parts, headers, body)


@pytest.fixture
def box():
    made = Strict(life=900)
    yield made
    made.stop()


@pytest.fixture
def clouds():
    """clouds(kind, skew) -> one whose clock is so far ahead, and whose tokens live for less than that."""
    made = []

    def make(kind, skew):
        made.append(kind())
        made[-1].skew, made[-1].life = skew, 900
        made[-1].buckets["box"] = {f"{i:02}": made[-1].object(b"hello") for i in range(20)}
        return made[-1]

    yield make
    for cloud in made:
        cloud.stop()


AWS = {"role": set_role, "web": set_web_identity, "sso": set_sso, "container": set_container, "instance": set_instance}


def aws_env(box, server, provider, home):  # noqa: F811 (not the fixture)
    services = {"AWS_ENDPOINT_URL_STS": box.url, "AWS_ENDPOINT_URL_SSO": box.url}
    server_env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": "us-east-1"}
    return services | server_env | AWS[provider](home, box)


@BOTH_WAYS
@pytest.mark.parametrize("provider", AWS)
def test_awss_services_are_asked_once(box, faulty, run_leat, home, tmp_path, skew, provider):  # noqa: F811
    """Keys of a quarter of an hour, which by this machine's clock were over before they came."""
    box.skew = skew
    server = faulty(clock_offset=skew)
    for i in range(20):
        server.objects[f"bucket/{i:02}"] = b"hello"
    env = aws_env(box, server, provider, home)
    run_leat("cp", "--recursive", "--connections", "1", "s3://bucket", tmp_path / "out", env=env, status=0)
    assert len(list((tmp_path / "out").iterdir())) == 20
    assert len(box.given) == 1, f"{len(box.given)} times keys for 20 objects"
    refused = 1 if provider == "role" else 0
    assert box.names().count("sts") == (1 + refused if provider in ("role", "web") else 0)


@BOTH_WAYS
def test_googles_assertions_go_by_its_clock(clouds, rsa_key, run_leat, tmp_path, skew):  # noqa: F811
    google = clouds(GoogleCloud, skew)
    proper, refused = google.check_assertion, []

    def judge(jwt):
        answer = proper(jwt)
        claims = google.assertions[-1][1]
        if abs(claims["iat"] - time.time() - skew) < 300:
            return answer
        refused.append(claims)
        why = "Invalid JWT: Token must be a short-lived token and in a reasonable timeframe. Check your iat and exp."
        return 400, {}, json.dumps({"error": "invalid_grant", "error_description": why}).encode()

    google.check_assertion = judge
    env = google_env(google, tmp_path, service_account(google, rsa_key))
    run_leat("cp", "--recursive", "--connections", "1", "gs://box", tmp_path / "out", env=env, status=0)
    assert len(refused) == 1
    assert len(google.assertions) == 2


@BOTH_WAYS
def test_an_assertion_that_is_refused_for_another_reason(clouds, rsa_key, run_leat, tmp_path, skew):  # noqa: F811
    """Once more with the right time, and that is it."""
    google = clouds(GoogleCloud, skew)
    google.check_assertion = lambda jwt: (400, {}, b'{"error": "invalid_grant"}')
    env = google_env(google, tmp_path, service_account(google, rsa_key))
    assert "invalid_grant" in run_leat("ls", "gs://box", env=env, status=4).stderr
    assert len(google.forms) == 2


@BOTH_WAYS
def test_times_of_google_and_azure_are_read_by_their_clocks(clouds, run_leat, tmp_path, skew):
    """Where they state a moment; for how long needs no clock."""
    google = clouds(GoogleCloud, skew)
    (tmp_path / "token").write_text("subject-token")
    more = {"service_account_impersonation_url": google.url + "/oauth/impersonate:generateAccessToken"}
    credentials = external(google, {"file": str(tmp_path / "token")}, **more)
    env = google_env(google, tmp_path, credentials)
    run_leat("cp", "--recursive", "--connections", "1", "gs://box", tmp_path / "google", env=env, status=0)
    assert len(google.forms) == 2, "one exchange, one impersonation"
    for where in ("secret", "workload", "machine"):
        azure = clouds(AzureCloud, skew)
        (tmp_path / "token").write_text("federated-token")
        env = azure_env(azure, **AZURE[where](azure, tmp_path))
        run_leat("cp", "--recursive", "--connections", "1", "az://acct/box", tmp_path / where, env=env, status=0)
        assert len(azure.tokens) == 1, f"{where}: {len(azure.tokens)} tokens for 20 objects"


@BOTH_WAYS
@pytest.mark.parametrize("ends", [2**63 - 1, str(2**64 - 1), 1e300])
def test_a_token_that_is_said_to_end_in_ages_is_good(skew, ends, run_leat):
    cloud = AzureCloud()
    cloud.buckets["box"] = {"k": cloud.object(b"hello")}

    def answer(r):
        if not r.path.startswith("/metadata"):
            return None
        told = {"access_token": cloud.token("machine"), "expires_on": ends}
        return 200, {"Date": formatdate(time.time() + skew, usegmt=True)}, json.dumps(told).encode()

    cloud.fail.append(answer)
    env = {"AZURE_STORAGE_ENDPOINT": cloud.endpoint, "AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.url}
    try:
        assert run_leat("cat", "az://acct/box/k", env=env, status=0).stdout == "hello"
    finally:
        cloud.stop()
