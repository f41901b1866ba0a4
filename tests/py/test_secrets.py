"""No secret is shown: not by an error, doctor, the agent's log or `ps`, whatever a server answers. These servers say
back all that they were told, as some do who mean to help: in messages, in where a redirect leads, in garbage."""

import base64
import json
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from clouds import AzureCloud, Cloud, GoogleCloud
from keys_box import KeysBox
from loading import smallest_budget, wait_until
from test_cloud_keys import external, google_env, rsa_key, service_account, user  # noqa: F401 (a fixture)
from test_keys import ROLE, program, set_sso

SSE_KEY = base64.b64encode(b"unsayable-customer-key-32-bytes!").decode()
AZURE_KEY = base64.b64encode(b"unsayable-account-key").decode()
# All that is secret below. "unsayable" begins each that a test may choose.
SECRETS = [
    "unsayable",
    "a-web-token",
    "an-sso-token",
    "an-imds-token",
    "subject-token",
    "federated-token",
    "app-secret",
    "1//refresh",
    "hush",
    "ya29.",
    "PRIVATE KEY",
    SSE_KEY,
    AZURE_KEY,
    base64.b64encode(b"someone:unsayable-proxy-password").decode(),
]
SOON = ("--timeout", "300ms")
SIGNATURES = ["Signature=", "X-Amz-Signature", "sig="]  # who has one can use it for a while


class Echo(Cloud):
    """A server for everything, which answers with what it was told. `answer`: one of ANSWERS."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def serve(self, r):
        told = " ".join([r.path, r.query_text, r.body.decode("latin-1"), *map(str, r.headers.values())])
        told = told.replace("\n", " ").replace("\r", " ")
        told += " " + urllib.parse.unquote_plus(told)
        return ANSWERS[self.answer](told, self.url)


def refusal(code, name):
    def answer(told, url):
        text = escape(told)
        xml = f"<Error><Code>{name}</Code><Message>{text}</Message><AWSAccessKeyId>{text}</AWSAccessKeyId>"
        xml += f"<StringToSign>{text}</StringToSign></Error>"
        return (
            code,
            {"Content-Type": "application/xml", "x-ms-error-code": name, "X-Error-Message": told[:500]},
            xml.encode(),
        )

    return answer


def oauth(told, url):
    text = {"error": told, "error_description": told, "message": told, "Code": told, "Message": told}
    return 400, {"Content-Type": "application/json"}, json.dumps(text).encode()


def redirect(told, url):
    where = "http://elsewhere.test/?" + urllib.parse.quote(told[:2000], safe=" /:=&-.").replace(" ", "&")
    return 307, {"Location": where}, told.encode()


ANSWERS = {
    "403": refusal(403, "SignatureDoesNotMatch"),
    "401": refusal(401, "InvalidAuthenticationInfo"),
    "400": oauth,
    "500": refusal(500, "InternalError"),
    "redirect": redirect,
    "garbage": lambda told, url: (200, {"ETag": f'"{told[:300]}"'}, told.encode()),
}


class Marked(KeysBox):
    def fresh(self, who):
        key, _, _, expires = super().fresh(who)
        return key, f"unsayable-secret-{self.number}", f"unsayable-session-token-{self.number}", expires


@pytest.fixture
def servers(request):
    """servers(kind) -> one that works."""
    made = []

    def make(kind, *args):
        made.append(kind(*args))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def aws(keys, store):
    return {
        "AWS_ENDPOINT_URL_S3": store,
        "AWS_ENDPOINT_URL_STS": keys,
        "AWS_ENDPOINT_URL_SSO": keys,
        "AWS_REGION": "us-east-1",
    }


def environment(home, keys, store):
    names = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "unsayable-secret"}
    return aws(keys, store) | names | {"AWS_SESSION_TOKEN": "unsayable-session-token"}


def role(home, keys, store):
    text = "[base]\naws_access_key_id = AKIABASE\naws_secret_access_key = unsayable-base-secret\n"
    (home / ".aws" / "credentials").write_text(text + "aws_session_token = unsayable-base-token\n")
    (home / ".aws" / "config").write_text(f"[profile p]\n{ROLE}source_profile = base\nexternal_id = an-id\n")
    return aws(keys, store) | {"AWS_PROFILE": "p"}


def web_identity(home, keys, store):
    (home / "token").write_text("a-web-token")
    return aws(keys, store) | {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "token"),
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x",
    }


def sso(home, keys, store):
    return aws(keys, store) | set_sso(home, None)


def container(home, keys, store):
    return aws(keys, store) | {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": keys + "/keys",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Bearer unsayable-container-token",
    }


def instance(home, keys, store):
    return aws(keys, store) | {"AWS_EC2_METADATA_DISABLED": None, "AWS_EC2_METADATA_SERVICE_ENDPOINT": keys}


def process(home, keys, store):
    """A program that gives half of what it should."""
    path = program(home, """print('{"Version": 1, "SecretAccessKey": "unsayable", "SessionToken": "unsayable"')""")
    (home / ".aws" / "config").write_text(f"[profile p]\ncredential_process = {path} --password unsayable\n")
    return aws(keys, store) | {"AWS_PROFILE": "p"}


def extras(home, keys, store):
    lines = {"LEAT_HEADER": "X-Auth: unsayable-header", "LEAT_SSE_C_KEY": SSE_KEY}
    return environment(home, keys, store) | lines


def proxy(home, keys, store):
    where = store.replace("://", "://someone:unsayable-proxy-password@")
    names = {"http_proxy": where, "https_proxy": where, "AWS_ENDPOINT_URL_S3": "http://bucket.test"}
    return environment(home, keys, store) | names


def tls_proxy(home, keys, store):
    return proxy(home, keys, store) | {"AWS_ENDPOINT_URL_S3": "https://bucket.test"}


def at(keys):
    """As the files of Google's clouds want it."""
    cloud = type("At", (), {})()
    cloud.url = keys
    return cloud


def google(home, store, credentials):
    return google_env(at(store), home, credentials)


def google_user(home, keys, store):
    return google(home, store, user(at(keys)))


def google_service(home, keys, store, key):
    return google(home, store, service_account(at(keys), key))


def google_external(home, keys, store):
    (home / "subject").write_text("subject-token")
    return google(home, store, external(at(keys), {"file": str(home / "subject")}))


def google_machine(home, keys, store):
    return {"STORAGE_EMULATOR_HOST": store, "GCE_METADATA_HOST": keys.partition("//")[2]}


def google_pair(home, keys, store):
    names = {"GS_ACCESS_KEY_ID": "GOOG1EXAMPLE", "GS_SECRET_ACCESS_KEY": "unsayable-hmac-secret"}
    return {"STORAGE_EMULATOR_HOST": store} | names


def azure(store, **more):
    return {"AZURE_STORAGE_ENDPOINT": store + "/acct", **more}


def azure_key(home, keys, store):
    return azure(store, AZURE_STORAGE_KEY=AZURE_KEY)


def azure_connection(home, keys, store):
    text = f"DefaultEndpointsProtocol=http;AccountName=acct;AccountKey={AZURE_KEY};BlobEndpoint={store}/acct;"
    return {"AZURE_STORAGE_CONNECTION_STRING": text}


def azure_sas(home, keys, store):
    return azure(store, AZURE_STORAGE_SAS_TOKEN="?sv=2021-12-02&sp=r&sig=unsayable-sas%3D")


def azure_secret(home, keys, store):
    names = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_CLIENT_SECRET": "hush"}
    return azure(store, AZURE_AUTHORITY_HOST=keys, **names)


def azure_workload(home, keys, store):
    (home / "federated").write_text("federated-token")
    names = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client"}
    return azure(store, AZURE_AUTHORITY_HOST=keys, AZURE_FEDERATED_TOKEN_FILE=str(home / "federated"), **names)


def azure_machine(home, keys, store):
    return azure(store, AZURE_POD_IDENTITY_AUTHORITY_HOST=keys)


def azure_app(home, keys, store):
    return azure(store, IDENTITY_ENDPOINT=keys + "/app/identity", IDENTITY_HEADER="app-secret")


def hub(home, keys, store):
    return {"HF_ENDPOINT": store, "HF_TOKEN": "unsayable-hf-token"}


S3, GS, AZ, HF = "s3://bucket/key", "gs://bucket/key", "az://acct/box/key", "hf://datasets/someone/some/key"
# Where keys come from, and who hands them out; None: nobody is asked.
SOURCES = {
    environment: (S3, None),
    extras: (S3, None),
    proxy: (S3, None),
    tls_proxy: (S3, None),
    role: (S3, Marked),
    web_identity: (S3, Marked),
    sso: (S3, Marked),
    container: (S3, Marked),
    instance: (S3, Marked),
    process: (S3, None),
    google_user: (GS, GoogleCloud),
    google_service: (GS, GoogleCloud),
    google_external: (GS, GoogleCloud),
    google_machine: (GS, GoogleCloud),
    google_pair: (GS, None),
    azure_key: (AZ, None),
    azure_connection: (AZ, None),
    azure_sas: (AZ, None),
    azure_secret: (AZ, AzureCloud),
    azure_workload: (AZ, AzureCloud),
    azure_machine: (AZ, AzureCloud),
    azure_app: (AZ, AzureCloud),
    hub: (HF, None),
}


def shows_nothing(text, what):
    found = [secret for secret in SECRETS + SIGNATURES if secret in text]
    assert not found, f"{what} shows {found}: {text}"


@pytest.fixture
def everywhere(run_leat, tmp_path):
    """everywhere(url, env, what): all that one does with a bucket; nothing of it says a secret, or leaves one behind."""

    def run(url, env, what):
        number = len(list(tmp_path.iterdir()))
        out = tmp_path / f"out-{what}-{number}"
        out.mkdir()
        (out / "file").write_bytes(b"hello")
        parent = url.rpartition("/")[0]
        commands = [("ls", *SOON, parent), ("cp", *SOON, url, out / "copy")]
        if "with-401" in what:
            commands.append(("doctor", "--time", "100ms", *SOON, parent))
        if "403" in what and not url.startswith("hf:"):
            commands.append(("cp", *SOON, out / "file", url))
        for command in commands:
            done = run_leat(*command, env={**env, "LEAT_RUNTIME_DIR": str(out / "run"), "XDG_CACHE_HOME": str(out)})
            shows_nothing(done.stdout + done.stderr, f"{what}: leat {command[0]}")
            assert done.returncode != 0 or "garbage" in what or command[0] == "doctor", (what, command, done.stdout)
        for path in out.rglob("*"):
            if path.is_file() and path.name != "copy":  # what the bucket holds, however odd
                shows_nothing(path.read_bytes().decode("latin-1"), f"{what}: {path}")

    return run


# Sources whose store is tried with all answers; the others of the same store meet two of them in the default suite.
WHOLE = (extras, tls_proxy, google_pair, google_user, azure_key, azure_secret, hub)
BRIEF = {"403": ANSWERS["403"], "redirect": ANSWERS["redirect"]}
OF_KEYS = ("400", "403", "garbage")  # what the others' services of keys answer then


@pytest.mark.parametrize(
    ("source", "answers"),
    [(source, ANSWERS if source in WHOLE else BRIEF) for source in SOURCES]
    + [pytest.param(source, ANSWERS, marks=pytest.mark.long) for source in SOURCES if source not in WHOLE],
    ids=lambda value: value.__name__ if callable(value) else f"{len(value)}-answers",
)
def test_no_secret_is_shown_whatever_is_answered(source, answers, servers, everywhere, clean_env, request):
    """By the store; and, whatever the source, by the service that hands out the keys."""
    url, service = SOURCES[source]
    home = Path(clean_env["HOME"])
    (home / ".aws").mkdir()
    more = (request.getfixturevalue("rsa_key"),) if source is google_service else ()
    cases = []
    for answer in ANSWERS:
        echo = servers(Echo, answer)
        if service and answer in answers:
            keys = servers(service)
            if source is google_service:
                keys.public_key = more[0][0].public_key()
            cases.append((f"{source.__name__} with a store's {answer}", keys.url, echo.url))
        if answer in answers or (service and answer in OF_KEYS):
            cases.append((f"{source.__name__} with {answer}", echo.url, echo.url))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(one, *case, home, source, more, everywhere, url) for case in cases]:
            done.result()


def one(what, keys, store, home, source, more, everywhere, url):
    folder = home / what.replace(" ", "-")  # files of one case do not meet another's
    (folder / ".aws").mkdir(parents=True)
    env = source(folder, keys, store, *more)
    everywhere(url, {"HOME": str(folder), **env}, what.replace(" ", "-"))


def test_a_loader_and_its_agent_show_none(lt, runtime, run_leat, faulty, servers, blobs, monkeypatch):
    """Keys, an encryption key, a header and etcd's password, at a store and an etcd that say them back."""
    store, etcd = faulty(), servers(Echo, "401")
    for path in blobs.path.rglob("*"):
        if path.is_file():
            store.objects[f"bucket/ds/{path.relative_to(blobs.path)}"] = path.read_bytes()
    for name, value in extras(None, store.url, store.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ETCDCTL_USER", "someone:unsayable-etcd-password")

    def say_back(exchange):
        told.append(exchange.request)
        exchange.error(403, "AccessDenied", "You said " + escape(" ".join(exchange.request.headers.values())))

    told = []
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    job = f"etcd://{etcd.host}/secrets"
    options = {"batch_size": 4, "fields": fields, "window": 2, "job": job, "timeout": 60}
    budget = smallest_budget(lt, str(blobs.path), batch_size=4, fields=fields, window=2)
    runtime.wait_gone()
    with lt.Loader("s3://bucket/ds", ram=budget, **options) as loader:
        it = iter(loader)
        next(it)
        store.fault(say_back)
        with pytest.raises(lt.Error) as caught:
            for _ in range(3):
                list(it)
                it = iter(loader)
        cmdline = Path(f"/proc/{runtime.agent()}/cmdline").read_bytes().decode()
        listed = run_leat("agent", "ls", "--json", env={"LEAT_RUNTIME_DIR": runtime.folder}, status=0).stdout
        wait_until(lambda: any(b"unsayable-etcd-password" in r.body for r in etcd.requests), what="a login to etcd")
        shows_nothing(f"{caught.value} {loader!r} {loader.stats()}", "the loader")
    assert told and told[0].headers["x-amz-security-token"] == "unsayable-session-token"
    assert "You said" in str(caught.value), "the server's words are shown, up to where they tell"
    shows_nothing(cmdline + listed, "ps, or leat agent ls")
    log = run_leat("agent", "log", env={"LEAT_RUNTIME_DIR": runtime.folder}, status=0).stdout
    assert log
    shows_nothing(log, "leat agent log")
    for path in Path(runtime.folder).rglob("*"):
        if path.is_file():
            shows_nothing(path.read_bytes().decode("latin-1"), str(path))


@pytest.mark.parametrize("variable", [False, True])
def test_an_endpoint_of_one_kind_of_store_gets_no_keys_of_another(run_leat, faulty, tmp_path, variable):
    """One that is given for s3:// would be asked with Google's token, too, and get what belongs elsewhere."""
    server = faulty()
    server.objects["one/key"] = b"hello"
    env = {**server.env(), "GS_ACCESS_KEY_ID": "GOOG1EXAMPLE", "GS_SECRET_ACCESS_KEY": "a-secret"}
    env.pop("AWS_ENDPOINT_URL")
    said = [] if variable else ["--endpoint-url", server.url]
    env |= {"LEAT_ENDPOINT_URL": server.url} if variable else {}
    for command, *urls in (
        ["cp", "s3://one/key", "gs://two/key"],
        ["cat", "s3://one/key", "az://acct/two/key"],
        ["pack", "hf://datasets/a/b", "s3://one/set"],
        ["index", "s3://one/key", "gs://two/set"],
        ["diff", "s3://one/set", "gs://two/set"],
        ["unpack", "gs://two/set", "s3://one/files"],
        ["select", "--keys", "gs://two/list", "--name", "some", "s3://one/set"],
        ["pack", "--manifest", "gs://two/table.csv", "s3://one/key", "s3://one/set"],
        ["index", "--classes", "gs://two/classes.txt", "s3://one/key", "s3://one/set"],
    ):
        done = run_leat(command, *said, *urls, env=env, status=2)
        assert "each kind of store has its own" in done.stderr
    assert all("AWS4" in r.headers["authorization"] and r.key.startswith("one/") for r in server.requests)
    run_leat("cp", *said, "s3://one/key", tmp_path / "to", env=env, status=0)
