"""Google's and Azure's keys from every place that their own libraries know, renewed while they are used; the official SDKs
get theirs from the same services, and read and write the same objects."""

import json
import time

import pytest
from clouds import AzureCloud, GoogleCloud
from command_tools import one_line, some_bytes

SECRETS = ["1//refresh", "hush", "PRIVATE KEY", "ya29.", "a-secret", "federated-token", "app-secret", "c2lnbmF0dXJl"]


@pytest.fixture
def google():
    cloud = GoogleCloud()
    cloud.buckets["bucket"] = {"key": cloud.object(b"hello")}
    yield cloud
    cloud.stop()


@pytest.fixture
def azure():
    cloud = AzureCloud()
    cloud.buckets["box"] = {"key": cloud.object(b"hello")}
    yield cloud
    cloud.stop()


@pytest.fixture(scope="module")
def rsa_key():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key, pem.decode()


def service_account(cloud, rsa_key):
    cloud.public_key = rsa_key[0].public_key()
    return {
        "type": "service_account",
        "client_email": "robot@project.iam.gserviceaccount.com",
        "private_key": rsa_key[1],
        "private_key_id": "0123abcd",
        "project_id": "project",
        "token_uri": cloud.url + "/oauth/token",
    }


def user(cloud):
    return {
        "type": "authorized_user",
        "client_id": "client",
        "client_secret": "hush",
        "refresh_token": "1//refresh",
        "token_uri": cloud.url + "/oauth/token",
    }


def external(cloud, source, **more):
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": cloud.url + "/oauth/token",
        "credential_source": source,
        **more,
    }


def google_env(cloud, folder, credentials):
    path = folder / "credentials.json"
    path.write_text(json.dumps(credentials) if isinstance(credentials, dict) else credentials)
    return {"STORAGE_EMULATOR_HOST": cloud.url, "GOOGLE_APPLICATION_CREDENTIALS": path}


def reads(run_leat, url, env):
    assert run_leat("cat", url, env=env, status=0).stdout == "hello"


def refused(run_leat, url, env, *words):
    done = run_leat("cat", url, env=env)
    assert done.returncode != 0
    one_line(done, *words)
    assert not any(secret in done.stderr for secret in SECRETS), done.stderr
    return done


def test_a_service_account(google, rsa_key, run_leat, tmp_path):
    """What Google's own library signs from the same file, Leat signs: the same head and the same claims."""
    from google.auth.transport.requests import Request
    from google.oauth2 import service_account as official

    info = service_account(google, rsa_key)
    reads(run_leat, "gs://bucket/key", google_env(google, tmp_path, info))
    theirs = official.Credentials.from_service_account_info(
        info, scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
    )
    theirs.refresh(Request())
    (our_head, ours), (their_head, claims) = google.assertions
    assert our_head == their_head
    assert {**ours, "iat": 0, "exp": 0, "aud": 0} == {**claims, "iat": 0, "exp": 0, "aud": 0}
    assert ours["exp"] - ours["iat"] == claims["exp"] - claims["iat"] == 3600


def test_a_users_login_and_gclouds_file(google, run_leat, clean_env, tmp_path):
    env = google_env(google, tmp_path, user(google))
    reads(run_leat, "gs://bucket/key", env)
    folder = tmp_path / "home" / ".config" / "gcloud"
    folder.mkdir(parents=True)
    (folder / "application_default_credentials.json").write_text(json.dumps(user(google)))
    reads(run_leat, "gs://bucket/key", {"STORAGE_EMULATOR_HOST": google.url})
    refused(
        run_leat,
        "gs://bucket/key",
        google_env(google, tmp_path, {**user(google), "refresh_token": "old"}),
        "invalid_grant",
    )


@pytest.mark.parametrize("source", ["file", "json", "url", "impersonated"])
def test_workload_identity(google, run_leat, tmp_path, source):
    (tmp_path / "token").write_text("subject-token" if source != "json" else '{"value": "subject-token"}')
    form = {"type": "json", "subject_token_field_name": "value"}
    sources = {
        "file": {"file": str(tmp_path / "token")},
        "json": {"file": str(tmp_path / "token"), "format": form},
        "url": {"url": google.url + "/subject", "headers": {"X-Ask": "please"}, "format": form},
        "impersonated": {"file": str(tmp_path / "token")},
    }
    more = {}
    if source == "impersonated":
        more["service_account_impersonation_url"] = google.url + "/oauth/impersonate:generateAccessToken"
    credentials = external(google, sources[source], **more)
    reads(run_leat, "gs://bucket/key", google_env(google, tmp_path, credentials))
    ours = google.forms[-2 if source == "impersonated" else -1]
    used = google.requests[-1].headers["authorization"]
    assert ("impersonated" if source == "impersonated" else "federated") in used
    # Google's own library sends the same form.
    from google.auth import identity_pool
    from google.auth.transport.requests import Request

    scope = "https://www.googleapis.com/auth/devstorage.read_write"
    theirs = identity_pool.Credentials.from_info(credentials, scopes=[scope])
    theirs.refresh(Request())
    assert any(form == ours for form in google.forms[len(google.forms) // 2 :]), google.forms


def test_the_metadata_server(google, run_leat):
    reads(run_leat, "gs://bucket/key", {"STORAGE_EMULATOR_HOST": google.url, "GCE_METADATA_HOST": google.host})
    assert "machine" in google.requests[-1].headers["authorization"]


def test_anonymous(google, run_leat):
    env = {"STORAGE_EMULATOR_HOST": google.url, "NO_GCE_CHECK": "true"}
    refused(run_leat, "gs://bucket/key", env, "anonymous", "GOOGLE_APPLICATION_CREDENTIALS")
    google.open = True
    reads(run_leat, "gs://bucket/key", env)


@pytest.mark.parametrize(
    ("credentials", "word"),
    [
        ("not json", "holds no credentials"),
        ({"type": "impersonated_service_account"}, "not supported"),
        ({"type": "service_account", "client_email": "a@b"}, "private_key"),
        ({"type": "service_account", "client_email": "a@b", "private_key": "PRIVATE KEY"}, "RSA"),
        ({"type": "external_account", "audience": "a", "subject_token_type": "b", "token_url": "https://c",
          "credential_source": {"environment_id": "aws1"}}, "only tokens from a file or a URL"),
        ({"type": "authorized_user", "client_id": "x"}, "client_secret"),
    ],
)  # fmt: skip
def test_what_googles_files_cannot_be(google, run_leat, tmp_path, credentials, word):
    refused(run_leat, "gs://bucket/key", google_env(google, tmp_path, credentials), word)
    assert not [r for r in google.requests if r.path == "/bucket/key"], "asked with another identity, or none"


def test_half_a_pair_and_a_wrong_secret(google, run_leat):
    env = {"STORAGE_EMULATOR_HOST": google.url, "GS_ACCESS_KEY_ID": "GOOG1E"}
    refused(run_leat, "gs://bucket/key", env, "only one of")
    google.hmac["GOOG1E"] = "a-secret"
    reads(run_leat, "gs://bucket/key", {**env, "GS_SECRET_ACCESS_KEY": "a-secret"})
    refused(run_leat, "gs://bucket/key", {**env, "GS_SECRET_ACCESS_KEY": "a-secrex"}, "GS_ACCESS_KEY_ID")


def test_a_token_does_not_go_over_plain_http(google, azure, run_leat, tmp_path):
    env = google_env(google, tmp_path, user(google))
    refused(run_leat, "gs://bucket/key", {**env, "STORAGE_EMULATOR_HOST": "http://storage.test"}, "no TLS")
    refused(
        run_leat,
        "az://acct/box/key",
        {"AZURE_STORAGE_ENDPOINT": "http://blob.test/acct", "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=c2lnbmF0dXJl"},
        "no TLS",
    )


def azure_env(cloud, **more):
    return {"AZURE_STORAGE_ENDPOINT": cloud.endpoint, **more}


AZURE = {
    "key": lambda c, f: {"AZURE_STORAGE_KEY": c.key, "AZURE_STORAGE_ACCOUNT": "acct"},
    "connection": lambda c, f: {
        "AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;AccountName=acct;AccountKey={c.key};"
        f"BlobEndpoint={c.endpoint};",
        "AZURE_STORAGE_ENDPOINT": None,
    },
    "secret": lambda c, f: {
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_CLIENT_SECRET": "hush",
        "AZURE_AUTHORITY_HOST": c.url,
    },
    "workload": lambda c, f: {
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_FEDERATED_TOKEN_FILE": f / "token",
        "AZURE_AUTHORITY_HOST": c.url,
    },
    "machine": lambda c, f: {"AZURE_POD_IDENTITY_AUTHORITY_HOST": c.url},
    "app": lambda c, f: {"IDENTITY_ENDPOINT": c.url + "/app/identity", "IDENTITY_HEADER": "app-secret"},
}


@pytest.mark.parametrize("where", AZURE)
def test_azures_keys(azure, run_leat, tmp_path, where):
    (tmp_path / "token").write_text("federated-token\n")
    reads(run_leat, "az://acct/box/key", azure_env(azure, **AZURE[where](azure, tmp_path)))
    assert azure.requests[-1].headers["x-ms-version"] == "2021-12-02"


def test_a_sas_is_sent_and_not_shown(azure, run_leat):
    azure.sas = "sig=c2lnbmF0dXJl%3D"
    env = azure_env(azure, AZURE_STORAGE_SAS_TOKEN="?sv=2021-12-02&sp=r&sig=c2lnbmF0dXJl%3D")
    reads(run_leat, "az://acct/box/key", env)
    azure.sas = None
    refused(run_leat, "az://acct/box/key", env, "AZURE_STORAGE_SAS_TOKEN")
    refused(run_leat, "az://acct/box/key", azure_env(azure, AZURE_STORAGE_SAS_TOKEN="sv=1"), "no signature")


def test_keys_of_another_account_do_not_go(azure, run_leat):
    env = azure_env(azure, AZURE_STORAGE_KEY=azure.key, AZURE_STORAGE_ACCOUNT="other")
    refused(run_leat, "az://acct/box/key", env, "acct", "other")
    assert not azure.requests


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({"AZURE_STORAGE_KEY": "not base64!"}, "not base64"),
        ({"AZURE_CLIENT_SECRET": "hush"}, "AZURE_TENANT_ID"),
        ({"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"}, "not supported"),
        ({"AZURE_STORAGE_CONNECTION_STRING": "AccountName=acct"}, "neither AccountKey"),
        (
            {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "/nowhere/token"},
            "cannot read",
        ),
    ],
)
def test_what_azures_settings_cannot_be(azure, run_leat, env, word):
    refused(run_leat, "az://acct/box/key", azure_env(azure, **env), word)


def test_tokens_renew_in_a_long_copy(google, run_leat, tmp_path):
    """A token that ends in mid-transfer: asked for again once, and the copy goes on."""
    google.life = 2
    folder = tmp_path / "out"
    for i in range(40):
        google.buckets["bucket"][f"many/{i:02}"] = google.object(some_bytes(1000, seed=i))

    def slow(request):
        if request.path.startswith("/bucket/many"):
            time.sleep(0.15)
        return None

    google.fail.append(slow)
    env = {"STORAGE_EMULATOR_HOST": google.url, "GCE_METADATA_HOST": google.host}
    run_leat("cp", "--recursive", "--connections", "1", "gs://bucket/many", folder, env=env, status=0)
    assert len(list(folder.rglob("*"))) == 40
    used = {r.headers["authorization"] for r in google.requests if r.path.startswith("/bucket/many")}
    assert len(used) >= 3, "tokens of 2 s in a copy of 6"
    assert len(google.tokens) <= 2 * len(used) + 2


def test_a_token_that_was_taken_back_is_asked_for_again(azure, run_leat, tmp_path):
    (tmp_path / "token").write_text("federated-token")
    taken = []

    def take_back(request):
        if request.path.startswith("/acct") and not taken:
            taken.append(request)
            azure.tokens.clear()
        return None

    azure.fail.append(take_back)
    reads(run_leat, "az://acct/box/key", azure_env(azure, **AZURE["workload"](azure, tmp_path)))
    assert len(azure.forms) == 2


def test_googles_own_library_reads_and_writes_the_same(google, run_leat, tmp_path, monkeypatch):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    google.open = True
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google.url)
    env = {"STORAGE_EMULATOR_HOST": google.url, "NO_GCE_CHECK": "true"}
    bucket = storage.Client(project="p", credentials=AnonymousCredentials()).bucket("bucket")
    data = some_bytes(70_000)
    bucket.blob("theirs/ü x").upload_from_string(data, checksum="crc32c")
    assert run_leat("cat", "gs://bucket/theirs/ü x", env=env, status=0, text=False).stdout == data
    (tmp_path / "f").write_bytes(data)
    run_leat("cp", tmp_path / "f", "gs://bucket/ours/ü x", env=env, status=0)
    blob = bucket.blob("ours/ü x")
    assert blob.download_as_bytes(checksum="crc32c") == data
    # Their way to write in parts is the one that Leat uses.
    from google.cloud.storage import transfer_manager

    (tmp_path / "large").write_bytes(some_bytes(11 << 20))
    transfer_manager.upload_chunks_concurrently(
        str(tmp_path / "large"), bucket.blob("large"), chunk_size=5 << 20, worker_type="thread", max_workers=2
    )
    theirs = [r for r in google.requests if "uploads" in r.query or "uploadId" in r.query]
    count = len(google.requests)
    run_leat("cp", "--part-size", "5mib", tmp_path / "large", "gs://bucket/large2", env=env, status=0)
    ours = [r for r in google.requests[count:] if "uploads" in r.query or "uploadId" in r.query]
    shape = lambda rs: sorted((r.method, sorted(set(r.query) - {"list-type"})) for r in rs)  # noqa: E731
    assert shape(ours) == shape(theirs)
    assert google.buckets["bucket"]["large"].data == google.buckets["bucket"]["large2"].data


def test_azures_own_library_reads_and_writes_the_same(azure, run_leat, tmp_path):
    """With the account's key: the server computes the signature as documented, and takes theirs and ours."""
    from azure.storage.blob import BlobServiceClient

    env = azure_env(azure, AZURE_STORAGE_KEY=azure.key)
    service = BlobServiceClient(azure.endpoint, credential={"account_name": "acct", "account_key": azure.key})
    box = service.get_container_client("box")
    data = some_bytes(70_000)
    box.upload_blob("theirs/ü x", data)
    assert run_leat("cat", "az://acct/box/theirs/ü x", env=env, status=0, text=False).stdout == data
    (tmp_path / "f").write_bytes(some_bytes(11 << 20))
    run_leat("cp", "--part-size", "5mib", tmp_path / "f", "az://acct/box/ours", env=env, status=0)
    assert box.download_blob("ours").readall() == (tmp_path / "f").read_bytes()
    azure.page = 1
    names = [b.name for b in box.list_blobs()]
    listed = run_leat("ls", "--recursive", "--json", "az://acct/box", env=env, status=0).stdout.splitlines()
    assert sorted(json.loads(line)["key"] for line in listed) == sorted(names)
    refused(run_leat, "az://acct/box/key", {**env, "AZURE_STORAGE_KEY": "d3Jvbmc="}, "AZURE_STORAGE_KEY")


def test_abfss_names_the_same_place(azure, run_leat):
    env = azure_env(azure, AZURE_STORAGE_KEY=azure.key)
    reads(run_leat, "abfss://box@acct.dfs.core.windows.net/key", env)
    done = run_leat("cat", "abfss://box@acct.dfs.core.chinacloudapi.cn/key", env=env)
    assert done.returncode != 0
    one_line(done, "another cloud")


def test_names_that_xml_cannot_hold(azure, run_leat):
    azure.buckets["box"]["a\x01b"] = azure.object(b"x")
    out = run_leat("ls", "--json", "az://acct/box", env=azure_env(azure, AZURE_STORAGE_KEY=azure.key), status=0).stdout
    assert "a\x01b" in [json.loads(line)["key"] for line in out.splitlines()]


def test_google_sends_what_is_stored(google, run_leat, tmp_path):
    """An object stored packed: Google would unpack it for who does not take it packed, and its size and CRC would not fit."""
    import gzip

    google.open = True
    packed = gzip.compress(b"hello " * 1000)
    google.buckets["bucket"]["packed"] = google.object(packed, encoding="gzip")
    env = {"STORAGE_EMULATOR_HOST": google.url, "NO_GCE_CHECK": "true"}
    run_leat("cp", "gs://bucket/packed", tmp_path / "out", env=env, status=0)
    assert (tmp_path / "out").read_bytes() == packed


def test_doctor_says_whose_keys(google, run_leat, tmp_path):
    done = run_leat("doctor", "--time", "100ms", "gs://bucket", env=google_env(google, tmp_path, user(google)))
    assert "GOOGLE_APPLICATION_CREDENTIALS" in done.stdout, done.stdout
    assert not any(secret in done.stdout + done.stderr for secret in SECRETS), done.stdout
