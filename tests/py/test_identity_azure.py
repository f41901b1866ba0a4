"""Azure's tokens beside azure-identity: from the same settings both ask the same question, recorded by one server, and
read its answer alike."""

import json
import time
from urllib.parse import parse_qsl

import pytest
from clouds import AzureCloud

identity = pytest.importorskip("azure.identity")
from azure.core.pipeline.transport import RequestsTransport  # noqa: E402

SCOPE = "https://storage.azure.com/.default"  # what azure-storage-blob asks for


@pytest.fixture
def azure(monkeypatch):
    cloud = AzureCloud()
    cloud.buckets["box"] = {"key": cloud.object(b"hello")}
    for name in ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"):
        monkeypatch.delenv(name, raising=False)
    yield cloud
    cloud.stop()


class Plain(RequestsTransport):
    """The library insists on TLS for its authority, which the server here does not speak."""

    def send(self, request, **more):
        request.url = request.url.replace("https://127.0.0.1", "http://127.0.0.1")
        return super().send(request, **more)


LOGIN = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client"}
WAYS = {
    "secret": (lambda cloud, folder: {**LOGIN, "AZURE_CLIENT_SECRET": "hush"}, "EnvironmentCredential"),
    "workload": (
        lambda cloud, folder: {**LOGIN, "AZURE_FEDERATED_TOKEN_FILE": str(folder / "token")},
        "WorkloadIdentityCredential",
    ),
    "machine": (lambda cloud, folder: {"AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.url}, "ManagedIdentityCredential"),
    "machine, which": (
        lambda cloud, folder: {"AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.url, "AZURE_CLIENT_ID": "client"},
        "ManagedIdentityCredential",
    ),
    "app": (
        lambda cloud, folder: {"IDENTITY_ENDPOINT": cloud.url + "/app/identity", "IDENTITY_HEADER": "app-secret"},
        "ManagedIdentityCredential",
    ),
    "app, which": (
        lambda cloud, folder: {
            "IDENTITY_ENDPOINT": cloud.url + "/app/identity",
            "IDENTITY_HEADER": "app-secret",
            "AZURE_CLIENT_ID": "client",
        },
        "ManagedIdentityCredential",
    ),
}
HEADERS = ("metadata", "x-identity-header")


def question(request):
    """What decides about the answer. The library also says who it is, which nobody has to."""
    form = dict(parse_qsl(request.body.decode())) if request.method == "POST" else {}
    form = {name: value for name, value in form.items() if not name.startswith(("client_info", "x-client", "claims"))}
    query = {name: value.rstrip("/") if name == "resource" else value for name, value in request.query.items()}
    headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
    # Metadata: true is required by the machine's service; App Service's does not look at it.
    if "x-identity-header" in headers:
        headers.pop("metadata", None)
    return request.method, request.path, query, form, headers


def questions(cloud, since):
    paths = ("/tenant/oauth2", "/metadata", "/app")
    return [question(r) for r in cloud.requests[since:] if r.path.startswith(paths)]


def asked_by_the_library(cloud, kind, env):
    """(its questions, its token)"""
    since = len(cloud.requests)
    more = {"transport": Plain()}
    if kind != "ManagedIdentityCredential":
        more |= {"authority": cloud.url.replace("http:", "https:"), "disable_instance_discovery": True}
    elif "AZURE_CLIENT_ID" in env:
        more["client_id"] = env["AZURE_CLIENT_ID"]  # DefaultAzureCredential hands it on
    with getattr(identity, kind)(**more) as credential:
        token = credential.get_token(SCOPE)
    return questions(cloud, since), token


@pytest.mark.parametrize("way", WAYS)
def test_the_same_question_is_asked_and_the_token_is_sent(azure, run_leat, monkeypatch, tmp_path, way):
    (tmp_path / "token").write_text("federated-token")
    settings, kind = WAYS[way]
    env = settings(azure, tmp_path)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    theirs, token = asked_by_the_library(azure, kind, env)
    assert theirs
    assert azure.tokens[token.token]
    since = len(azure.requests)
    ours_env = {**env, "AZURE_STORAGE_ENDPOINT": azure.endpoint, "AZURE_AUTHORITY_HOST": azure.url}
    assert run_leat("cat", "az://acct/box/key", env=ours_env, status=0).stdout == "hello"
    assert questions(azure, since) == theirs[-1:]
    last = azure.requests[-1].headers["authorization"]
    assert last.startswith("Bearer ") and last[7:] in azure.tokens and last[7:] != token.token


@pytest.mark.parametrize("way", WAYS)
def test_both_see_when_the_token_ends(azure, run_leat, monkeypatch, tmp_path, way):
    """As numbers, as text, as a time or as a life: what the services say, by the library's reading of it."""
    azure.life = 4000
    (tmp_path / "token").write_text("federated-token")
    settings, kind = WAYS[way]
    env = settings(azure, tmp_path)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    began = int(time.time())
    _, token = asked_by_the_library(azure, kind, env)
    assert began + 3999 <= token.expires_on <= time.time() + 4001
    ours_env = {**env, "AZURE_STORAGE_ENDPOINT": azure.endpoint, "AZURE_AUTHORITY_HOST": azure.url}
    done = run_leat("doctor", "--json", "--time", "100ms", "az://acct/box", env=ours_env)
    keys = next(f for f in json.loads(done.stdout)["findings"] if f["name"] == "keys")
    assert keys["state"] == "ok", keys
    assert began + 3999 - time.time() <= keys["expires_in_s"] <= 4001, keys
