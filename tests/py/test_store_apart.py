"""Two endpoints with different keys in one job: sections [store s3://bucket] of the config file."""

import pytest
from loading import make_blobs
from test_loader_keys import Guard

KEYS = {"one": ("AK1", "first+secret"), "two": ("AK2", "second/secret")}


def keyed(name):
    access, secret = KEYS[name]
    return {"LEAT_SERVE_ACCESS_KEY": access, "LEAT_SERVE_SECRET_KEY": secret}


@pytest.fixture
def sides(serve, tmp_path):
    """Two servers: s3://one is only on the first, s3://two only on the second, and neither knows the other's keys."""
    found = {}
    for name in KEYS:
        (tmp_path / f"at-{name}" / name).mkdir(parents=True)
        found[name] = serve(tmp_path / f"at-{name}", env=keyed(name))
    return found


@pytest.fixture
def config(tmp_path):
    """config("[store …]…") -> variables: Leat's config file, and profiles with the keys of both."""
    credentials = tmp_path / "credentials"
    credentials.write_text(
        "".join(
            f"[{name}]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"
            for name, (access, secret) in KEYS.items()
        )
    )

    def write(text):
        (tmp_path / "leat.config").write_text(text)
        return {"LEAT_CONFIG": str(tmp_path / "leat.config"), "AWS_SHARED_CREDENTIALS_FILE": str(credentials)}

    return write


def section(sides, name, **more):
    lines = {"endpoint-url": sides[name].url, "profile": name, **more}
    return f"[store s3://{name}]\n" + "".join(f"{k} = {v}\n" for k, v in lines.items())


@pytest.fixture
def both(sides, config):
    return config(section(sides, "one") + section(sides, "two"))


@pytest.fixture
def files(tmp_path):
    known = make_blobs(tmp_path / "files", 60, sizes=(5_000, 9_000))
    return tmp_path / "files", known


@pytest.fixture
def environment(lt, monkeypatch):
    def add(env):
        for name, value in env.items():
            monkeypatch.setenv(name, value)

    return add


def load(lt, url, **options):
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    return lt.Loader(url, batch_size=8, last="short", fields=fields, as_numpy=True, **options)


def read(batches, known):
    seen = {}
    for keys, values in batches:
        seen.update(zip((k.rsplit("/", 1)[-1] for k in keys), values.tolist()))
    assert all(known[k] == v for k, v in seen.items())
    return len(seen)


def test_a_copy_between_two_endpoints_with_keys_of_their_own(run_leat, both, tmp_path):
    data = bytes(range(256)) * 40_000
    (tmp_path / "big").write_bytes(data)
    run_leat("cp", tmp_path / "big", "s3://one/big", env=both, status=0)
    run_leat("cp", "s3://one/big", "s3://two/copy", env=both, status=0)
    assert run_leat("cat", "s3://two/copy", env=both, status=0, text=False).stdout == data
    assert run_leat("ls", "s3://two/", env=both, status=0).stdout.split()[-1].endswith("copy")
    assert (tmp_path / "at-two" / "two" / "copy").read_bytes() == data
    assert not (tmp_path / "at-one" / "two").exists()


def test_a_section_counts_for_its_bucket_and_the_rest_is_as_ever(run_leat, sides, config, tmp_path):
    """Variables say the first; the second has a section, and so neither endpoint nor keys are theirs."""
    access, secret = KEYS["one"]
    env = {
        **config(section(sides, "two")),
        "AWS_ENDPOINT_URL": sides["one"].url,
        "LEAT_ENDPOINT_URL": sides["one"].url,
        "AWS_ACCESS_KEY_ID": access,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "eu-north-1",
    }
    (tmp_path / "x").write_bytes(b"x")
    run_leat("cp", tmp_path / "x", "s3://one/x", env=env, status=0)
    run_leat("cp", "s3://one/x", "s3://two/x", env=env, status=0)
    assert (tmp_path / "at-two" / "two" / "x").read_bytes() == b"x"
    doctor = run_leat("doctor", "--time", "100ms", "--bytes", "1MiB", "s3://two/", env=env)
    assert sides["two"].url in doctor.stdout + doctor.stderr


def test_an_index_at_one_endpoint_over_objects_at_another(lt, sides, both, files, run_leat, environment, runtime):
    folder, known = files
    run_leat("cp", "-r", folder, "s3://two/raw", env=both, status=0)
    run_leat("index", "--chunk-size", "64KiB", "s3://two/raw", "s3://one/index", env=both, status=0)
    environment(both)
    with load(lt, "s3://one/index") as loader:
        assert read(loader, known) == len(known)
    with lt.open("s3://one/index") as data:
        assert {bytes(data[i]["bin"]) for i in range(len(data))} == set(known.values())
    log = runtime.log()
    assert not any(secret in log for _, secret in KEYS.values())


def test_an_index_with_a_section_for_its_objects_only(lt, sides, config, files, run_leat, environment):
    """The agent is told that s3://two is not reached as s3:// is, and asks for it by name."""
    folder, known = files
    access, secret = KEYS["one"]
    env = {
        **config(section(sides, "two")),
        "AWS_ENDPOINT_URL": sides["one"].url,
        "AWS_ACCESS_KEY_ID": access,
        "AWS_SECRET_ACCESS_KEY": secret,
    }
    run_leat("cp", "-r", folder, "s3://two/raw", env=env, status=0)
    run_leat("index", "--chunk-size", "64KiB", "s3://two/raw", "s3://one/index", env=env, status=0)
    before = sides["one"].stats()
    environment(env)
    with load(lt, "s3://one/index") as loader:
        assert read(loader, known) == len(known)
    after = sides["one"].stats()
    assert after.get("errors", 0) == before.get("errors", 0), "nothing of s3://two was asked of the first"


def test_a_mixture_over_two_endpoints(lt, both, files, run_leat, environment):
    folder, known = files
    names = sorted(p.name for p in folder.rglob("*.bin"))
    for name, part in (("one", names[::2]), ("two", names[1::2])):
        where = folder.parent / f"part-{name}"
        where.mkdir()
        for path in folder.rglob("*.bin"):
            if path.name in part:
                (where / path.name).write_bytes(path.read_bytes())
        run_leat("pack", "--chunk-size", "64KiB", where, f"s3://{name}/ds", env=both, status=0)
    environment(both)
    seen = set()
    with load(lt, lt.Mix({"a": 0.5, "b": 0.5}, {"a": "s3://one/ds", "b": "s3://two/ds"})) as loader:
        for keys, values in loader:
            assert all(known[k.rsplit("/", 1)[-1]] == v for k, v in zip(keys, values.tolist()))
            seen.update(k.rsplit("/", 1)[-1] for k in keys)
    assert seen & set(names[::2])
    assert seen & set(names[1::2])


def test_keys_of_a_store_apart_are_renewed_and_go_to_it_alone(lt, faulty, config, run_leat, environment, tmp_path):
    """One server for both, which tells their requests apart by bucket: each has its own session token."""
    server = faulty()
    known = make_blobs(tmp_path / "many", 300, sizes=(15_000, 30_000))
    for i, path in enumerate(sorted((tmp_path / "many").rglob("*.bin"))):
        bucket = ("bucket", "other")[i % 2]
        server.objects[f"{bucket}/raw/{path.name}"] = path.read_bytes()

    def write(token):
        lines = f"aws_access_key_id = test\naws_secret_access_key = test-secret\naws_session_token = {token}\n"
        (tmp_path / "credentials").write_text(f"[two]\n{lines}")

    env = {**config(f"[store s3://other]\nendpoint-url = {server.url}\nprofile = two\n"), **server.env()}
    env["AWS_SESSION_TOKEN"] = "common"
    write("apart-0")
    run_leat(
        "index", "--chunk-size", "64KiB", "s3://bucket/raw", "s3://other/raw", "s3://bucket/index", env=env, status=0
    )
    wrong = []

    def strange(request):
        apart = request.key.startswith("other")
        token = Guard.token(request)
        if token.startswith("apart") != apart:
            wrong.append((request.key, token))
        return apart and token not in valid

    valid = {"apart-0"}
    server.fault(lambda e: e.error(403, "ExpiredToken", "no"), match=strange)
    environment(env)
    with load(lt, "s3://bucket/index", ram="2mib", window=4) as loader:
        for turn in range(1, 3):
            it = iter(loader)
            first = len(next(it)[0])
            valid = {f"apart-{turn}"}
            write(f"apart-{turn}")
            assert first + read(it, known) == len(known)
    assert not wrong, "keys went to the other bucket"


REFUSED = {
    "unknown setting": ("[store s3://two]\nendpoint = http://x\n", "endpoint is not a setting of a store"),
    "no bucket": ("[store two]\nprofile = x\n", "not the address of a bucket"),
    "a key": ("[store s3://two/folder]\nprofile = x\n", "not the address of a bucket"),
    "a folder": ("[store /data]\nprofile = x\n", "not the address of a bucket"),
    "twice": ("[store s3://two]\nregion = a\n[store s3://two]\nregion = b\n", "a second section for s3://two"),
    "said twice": ("[store s3://two]\nregion = a\nregion = b\n", "said twice"),
    "no value": ("[store s3://two]\nregion =\n", "has no value"),
    "a style": ("[store s3://two]\naddressing = left\n", "auto, path or virtual"),
    "a flag": ("[store s3://two]\nno-sign-request = maybe\n", "no-sign-request"),
    "another kind": ("[store gs://two]\nprofile = x\n", "for s3:// only"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_honoured_is_refused_with_its_line(run_leat, config, case):
    text, message = REFUSED[case]
    done = run_leat("ls", "s3://bucket/", env=config(text))
    assert done.returncode != 0
    assert message in done.stderr
    assert "line" in done.stderr


@pytest.mark.parametrize(
    "option",
    [("--endpoint-url", "http://127.0.0.1:1"), ("--profile", "one"), ("--region", "x"), ("--no-sign-request",)],
)
def test_options_for_a_bucket_with_a_section_are_an_error(run_leat, both, option):
    done = run_leat("ls", "s3://two/", *option, env=both, status=2)
    assert "s3://two has a section of its own" in done.stderr


def test_arguments_for_a_bucket_with_a_section_are_an_error(lt, both, environment):
    environment(both)
    for open_it in (load, lambda lt, url, **o: lt.open(url, **o)):
        with pytest.raises(ValueError, match="s3://two has a section of its own"):
            open_it(lt, "s3://two/ds", endpoint_url="http://127.0.0.1:1")


def test_headers_that_are_said_for_all_buckets_are_not_sent_to_a_store_apart(run_leat, sides, config, tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    env = {**config(section(sides, "two")), "LEAT_HEADER": "x-token: hush"}
    done = run_leat("cp", tmp_path / "x", "s3://two/x", env=env, status=2)
    assert "say them there" in done.stderr
    assert "hush" not in done.stderr
    env = {**config(section(sides, "two", **{"requester-pays": "false"})), "LEAT_HEADER": "x-token: hush"}
    run_leat("cp", tmp_path / "x", "s3://two/x", env=env, status=0)


def test_a_section_without_lines_stands_for_what_is_usual(run_leat, sides, config, tmp_path):
    """No endpoint: AWS's own, and not the one of the variables. Nothing here can reach it."""
    env = {
        **config("[store s3://two]\n"),
        "AWS_ENDPOINT_URL": sides["one"].url,
        "http_proxy": "http://127.0.0.1:1",
        "https_proxy": "http://127.0.0.1:1",
    }
    done = run_leat("ls", "s3://two/", "--timeout", "2s", env=env)
    assert done.returncode == 5, done.stderr
    assert "the endpoint is AWS's own" in done.stderr


def test_other_commands_do_not_mind_the_sections(run_leat, both, tmp_path):
    run_leat("ls", tmp_path, env=both, status=0)
