"""hf://: the Hub by a server that answers as documented (hub.py), with huggingface_hub reading the same files beside us."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile

import pytest
from clouds import once
from command_tools import MIB, one_line, some_bytes
from hub import Hub

pytestmark = pytest.mark.every_case

NAME = "datasets/owner/name"
URL = f"hf://{NAME}"

FILES = {f"data/{i:03}.bin": some_bytes(i * 300, seed=i) for i in range(12)} | {
    "README.md": b"# A dataset\n",
    "a b+ü%41/x&y=z": some_bytes(1500, seed=99),
    "a b+ü%41/small": b"odd",
    "data-beside": b"not in the folder",
    "empty": b"",
}


@pytest.fixture
def hub():
    hub = Hub()
    hub.repo = hub.add(NAME)
    hub.first = hub.repo.commit(FILES)
    hub.env = {"HF_ENDPOINT": hub.url}
    yield hub
    hub.stop()


def official(hub, code, env, **more):
    """Runs a program with huggingface_hub, whose settings are read at import; what it prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\nimport huggingface_hub as hf\n{code}"],
        env={**env, "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("caches", [False, True])
def test_the_same_files_and_bytes_as_the_official_library(hub, run_leat, clean_env, tmp_path, caches):
    hub.page = 4
    hub.caches = caches
    rows = run_leat("ls", "--recursive", "--json", URL, env=hub.env, status=0).stdout.splitlines()
    ours = {row["key"]: (row["size"], row["etag"].strip('"')) for row in map(json.loads, rows)}
    assert list(ours) == sorted(FILES, key=str.encode)
    code = f"""
api = hf.HfApi()
rows = [r for r in api.list_repo_tree({NAME[9:]!r}, recursive=True, repo_type="dataset") if isinstance(r, hf.hf_api.RepoFile)]
found = {{r.path: [r.size, r.lfs.sha256 if r.lfs else r.blob_id] for r in rows}}
sums = {{}}
import hashlib
for r in rows:
    path = hf.hf_hub_download({NAME[9:]!r}, r.path, repo_type="dataset")
    sums[r.path] = hashlib.sha256(open(path, "rb").read()).hexdigest()
print(json.dumps([found, sums]))
"""
    theirs, sums = official(hub, code, clean_env)
    assert {k: tuple(v) for k, v in theirs.items()} == ours
    run_leat("cp", "--recursive", URL + "/", f"{tmp_path}/copy", env=hub.env, status=0)
    for key, data in FILES.items():
        assert (tmp_path / "copy" / key).read_bytes() == data, key
        assert hashlib.sha256(data).hexdigest() == sums[key]
    shown = run_leat("ls", f"{URL}/", env=hub.env, status=0).stdout
    assert "data/" in shown and "README.md" in shown and "001" not in shown
    below = run_leat("ls", "--recursive", f"{URL}/data/", env=hub.env, status=0).stdout
    assert "data-beside" not in below and below.count("\n") == 12
    one_line(run_leat("ls", "--recursive", f"{URL}/nothing/", env=hub.env, status=3), "there is nothing at")


def test_large_files_in_parts_and_ranges(hub, run_leat, tmp_path):
    data = some_bytes(13 * MIB)
    hub.repo.commit({"large": data})
    run_leat("cp", "--part-size", "5mib", f"{URL}/large", tmp_path / "large", env=hub.env, status=0)
    assert (tmp_path / "large").read_bytes() == data
    part = run_leat("cat", "--offset", "5000000", "--length", "100", f"{URL}/large", env=hub.env, text=False)
    assert part.stdout == data[5000000:5000100]
    resolved = [r for r in hub.requests if "/resolve/" in r.path]
    assert len(resolved) <= 4, "the address is remembered, not asked for with every part"


PLACES = {
    "HF_TOKEN": lambda home: {"HF_TOKEN": " hf_one\n"},
    "old variable": lambda home: {"HUGGING_FACE_HUB_TOKEN": "hf_one"},
    "both variables": lambda home: {"HF_TOKEN": "hf_one", "HUGGING_FACE_HUB_TOKEN": "hf_two"},
    "path": lambda home: write(home / "mine", "hf_one\n") and {"HF_TOKEN_PATH": str(home / "mine")},
    "path with a tilde": lambda home: write(home / "mine", "hf_one") and {"HF_TOKEN_PATH": "~/mine"},
    "home of the Hub": lambda home: write(home / "hub" / "token", "hf_one") and {"HF_HOME": str(home / "hub")},
    "cache folder": lambda home: (
        write(home / "xdg" / "huggingface" / "token", "hf_one") and {"XDG_CACHE_HOME": str(home / "xdg")}
    ),
    "login": lambda home: write(home / ".cache" / "huggingface" / "token", "hf_one\n") and {},
    "variable before file": lambda home: (
        write(home / ".cache" / "huggingface" / "token", "hf_two") and {"HF_TOKEN": "hf_one"}
    ),
    "no such path": lambda home: {"HF_TOKEN_PATH": str(home / "nowhere")},
    "not by itself": lambda home: {"HF_TOKEN": "hf_one", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"},
    "nothing": lambda home: {},
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


@pytest.mark.parametrize("place", PLACES)
def test_the_token_is_the_one_that_the_official_library_takes(hub, run_leat, clean_env, place):
    from pathlib import Path

    hub.users["hf_one"] = hub.users["hf_two"] = {NAME}
    env = PLACES[place](Path(clean_env["HOME"]))
    run_leat("cat", f"{URL}/data/011.bin", env=hub.env | env, status=0, text=False)
    ours = {r.headers.get("authorization") for r in hub.requests}
    assert all("authorization" not in r.headers for r in hub.store.requests) and hub.store.requests
    hub.requests.clear()
    path = official(
        hub,
        f'print(json.dumps(hf.hf_hub_download({NAME[9:]!r}, "data/011.bin", repo_type="dataset")))',
        clean_env | env,
    )
    theirs = {r.headers.get("authorization") for r in hub.requests if "api/agent" not in r.path}
    assert ours == theirs, path
    assert ours == ({None} if place in ("no such path", "not by itself", "nothing") else {"Bearer hf_one"})


def test_a_token_that_is_rewritten_is_read_again(hub, run_leat, tmp_path):
    """Revoked between two requests; the file has the new one by then."""
    file = tmp_path / "token"
    file.write_text("hf_old")
    hub.users["hf_old"] = {NAME}

    def rotate(r):
        if "/resolve/" in r.path and "hf_old" in hub.users:
            del hub.users["hf_old"]
            hub.users["hf_new"] = {NAME}
            file.write_text("hf_new")
        return None

    hub.repo.private = True
    hub.fail.append(rotate)
    got = run_leat("cat", f"{URL}/README.md", env=hub.env | {"HF_TOKEN_PATH": str(file)}, status=0)
    assert got.stdout == FILES["README.md"].decode()
    refused = [r for r in hub.requests if r.headers.get("authorization") == "Bearer hf_old" and "/resolve/" in r.path]
    assert len(refused) == 1


def test_a_branch_that_moves_is_read_as_it_was(hub, run_leat, tmp_path):
    data, other = some_bytes(12 * MIB), some_bytes(12 * MIB, seed=2)
    first = hub.repo.commit({"large": data, "b": b"first"})
    moved = []

    def move(r):
        if "/resolve/" in r.path and not moved:
            moved.append(hub.repo.commit({"large": other}))
        return None

    hub.fail.append(move)
    run_leat("cp", "--recursive", "--part-size", "5mib", URL + "/", tmp_path / "copy", env=hub.env, status=0)
    assert moved and (tmp_path / "copy" / "large").read_bytes() == data
    assert (tmp_path / "copy" / "b").read_text() == "first"
    assert run_leat("cat", f"{URL}@{first}/b", env=hub.env, status=0).stdout == "first"
    assert len([r for r in hub.requests if "/revision/" in r.path]) == 1, "a commit needs no question"
    assert run_leat("cat", f"{URL}/b", env=hub.env).returncode == 3


@pytest.mark.parametrize("revision", ["refs/convert/parquet", "refs%2Fconvert%2Fparquet", "v1.0", "refs/pr/7"])
def test_revisions_by_name(hub, run_leat, revision):
    for name in ("refs/convert/parquet", "v1.0", "refs/pr/7"):
        hub.repo.commit({"f/x": name.encode()}, ref=name)
    shown = run_leat("cat", f"{URL}@{revision}/f/x", env=hub.env, status=0).stdout
    assert shown == revision.replace("%2F", "/")
    assert run_leat("ls", "--recursive", f"{URL}@{revision}/", env=hub.env, status=0).stdout.endswith("f/x\n")


def test_signed_addresses_are_renewed_when_they_end(hub, run_leat, tmp_path):
    data = some_bytes(22 * MIB)
    hub.repo.commit({"large": data})
    used = {}

    def end_early(r):
        used[r.query["Signature"]] = used.get(r.query["Signature"], 0) + 1
        return (403, {}, b"<Error><Code>AccessDenied</Code></Error>") if used[r.query["Signature"]] > 2 else None

    hub.store.fail.append(end_early)
    options = ("--part-size", "5mib", "--connections", "1")
    run_leat("cp", *options, f"{URL}/large", tmp_path / "large", env=hub.env, status=0)
    assert (tmp_path / "large").read_bytes() == data
    assert len(used) >= 3
    hub.store.fail[:] = [lambda r: (403, {}, b"")]
    done = run_leat("cat", f"{URL}/large", env=hub.env)
    assert done.returncode == 4
    one_line(done, "403")


@pytest.mark.parametrize("key", ["data/011.bin", "data/003.bin"])
def test_flipped_bits_are_noticed(hub, run_leat, tmp_path, key):
    """Large files by their SHA-256, small ones by git's own name for them."""
    good = FILES[key]
    bad = bytes([good[0] ^ 1]) + good[1:]

    def flip(r):
        if r.method != "GET" or not (r.path.endswith(hashlib.sha256(good).hexdigest()) or "resolve-cache" in r.path):
            return None
        from clouds import cut_range
        from hub import git_name

        code, body, more = cut_range(r, bad)
        return code, {"ETag": f'"{git_name(good)}"', **more}, body

    hub.fail.append(flip)
    hub.store.fail.append(flip)
    done = run_leat("cat", f"{URL}/{key}", env=hub.env, text=False)
    assert done.returncode != 0 and b"checksum" in done.stderr
    done = run_leat("cp", f"{URL}/{key}", tmp_path / "out", env=hub.env)
    one_line(done, "checksum")
    assert not (tmp_path / "out").exists()


def test_faults_are_retried(hub, run_leat):
    slow = (429, {"Retry-After": "0"}, b"")
    hub.fail.append(once((503, {}, b""), slow, (500, {}, b"")))
    hub.store.fail.append(once((503, {}, b""), (500, {}, b"")))
    got = run_leat("cat", f"{URL}/data/011.bin", env=hub.env, status=0, text=False)
    assert got.stdout == FILES["data/011.bin"]


def test_another_length_than_the_hub_says_is_refused(hub, run_leat):
    data = FILES["data/011.bin"]
    name = hashlib.sha256(data).hexdigest()
    hub.large_files[name] = data[:-7]
    done = run_leat("cat", f"{URL}/data/011.bin", env=hub.env)
    assert done.returncode != 0
    one_line(done, "the Hub says that it has 3300 bytes")


def test_what_is_wrong_is_one_line(hub, run_leat):
    def refused(url, status, *words, **env):
        done = run_leat("cat", url, env=hub.env | env)
        assert done.returncode == status, done.stderr
        one_line(done, *words)

    refused(f"{URL}/nothing", 3, "no such file at revision 'main'")
    refused(f"{URL}@nowhere/README.md", 3, "no revision 'nowhere'")
    refused("hf://datasets/owner/else/x", 4, "no dataset 'owner/else', or it is private", "no token was sent")
    refused(f"{URL}/README.md", 4, "does not take the token", "HF_TOKEN", HF_TOKEN="hf_wrong")
    refused(f"{URL}/README.md", 2, "HF_HUB_OFFLINE is set", HF_HUB_OFFLINE="1")
    refused(f"{URL}/README.md", 2, "HF_OIDC_RESOURCE", HF_OIDC_RESOURCE="x")
    refused("hf://owner/name/README.md", 2, "hf://datasets/OWNER/NAME")
    refused("hf://datasets/owner", 2, "hf://datasets/OWNER/NAME")
    refused(f"{URL}@/README.md", 2, "no revision after '@'")
    refused(f"{URL}@100%/README.md", 2, "percent-encoded")
    refused(f"{URL}/README.md", 4, "no TLS", HF_TOKEN="hf_one", HF_ENDPOINT="http://hub.example.org")
    hub.users["hf_one"] = set()
    refused("hf://datasets/owner/else/x", 3, "no dataset 'owner/else'", "from HF_TOKEN", HF_TOKEN="hf_one")
    hub.repo.gated = True
    refused(f"{URL}/README.md", 4, "gated", "no token was sent")
    refused(f"{URL}/README.md", 4, "gated", "from HF_TOKEN", HF_TOKEN="hf_one")
    hub.repo.gated = False
    for command in (["rm", f"{URL}/README.md"], ["cp", "/etc/hostname", f"{URL}/x"], ["pack", "/etc/apt", URL]):
        done = run_leat(*command, env=hub.env)
        assert done.returncode == 2, done.stderr
        assert "can only be read from" in done.stderr


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "//127.0.0.1/x", "ftp://127.0.0.1/x", "http://user:secret@127.0.0.1/x", "", "x" * 9000],
)
def test_redirects_that_are_not_followed(hub, run_leat, location):
    hub.fail.append(lambda r: (302, {"Location": location}, b"") if "/resolve/" in r.path else None)
    done = run_leat("cat", f"{URL}/README.md", env=hub.env)
    assert done.returncode != 0
    one_line(done, "not followed")
    assert "secret" not in done.stderr


def test_redirects_that_go_round_end(hub, run_leat):
    hub.fail.append(lambda r: (307, {"Location": r.raw_path}, b"") if "/resolve/" in r.path else None)
    one_line(run_leat("cat", f"{URL}/README.md", env=hub.env), "do not end")
    assert len(hub.requests) < 12


def test_the_token_stays_with_the_hub(hub, run_leat):
    """A redirect to another port of this machine is another host; one that spells the Hub's own out is not."""
    hub.users["hf_one"] = {NAME}
    hub.fail.append(
        lambda r: (
            (302, {"Location": f"{hub.store.url}/repos/x?Expires=0"}, b"")
            if "/resolve/" in r.path and "011" in r.path
            else (302, {"Location": f"{hub.url}{r.raw_path.replace('README', 'empty').replace('.md', '')}"}, b"")
            if "README" in r.path
            else None
        )
    )
    env = hub.env | {"HF_TOKEN": "hf_one"}
    assert run_leat("cat", f"{URL}/data/011.bin", env=env).returncode != 0
    assert hub.store.requests and not any("authorization" in r.headers for r in hub.store.requests)
    run_leat("cat", f"{URL}/README.md", env=env, status=0)
    assert all(r.headers["authorization"] == "Bearer hf_one" for r in hub.requests)


def test_a_repository_with_another_name_now(hub, run_leat):
    hub.repos["datasets/new/place"] = hub.repo
    old = hub.add("datasets/old/place")
    old.moved_to = "new/place"
    done = run_leat("cat", "hf://datasets/old/place/data/011.bin", env=hub.env, status=0, text=False)
    assert done.stdout == FILES["data/011.bin"]
    assert b"'old/place' is called 'new/place' now" in done.stderr
    run_leat("ls", f"hf://datasets/old/place@{hub.first}/", env=hub.env, status=0)


@pytest.mark.parametrize("kind", ["models", "spaces"])
def test_models_and_spaces(hub, run_leat, kind):
    repo = hub.add(f"{kind}/owner/other")
    repo.commit({"config.json": b"{}", "weights": some_bytes(5000)})
    url = f"hf://{kind}/owner/other"
    assert run_leat("cat", f"{url}/config.json", env=hub.env, status=0).stdout == "{}"
    assert run_leat("cat", f"{url}/weights", env=hub.env, status=0, text=False).stdout == some_bytes(5000)
    assert run_leat("ls", url, env=hub.env, status=0).stdout.count("\n") == 2


def test_lists_that_are_none(hub, run_leat):
    def tree(*answers):
        hub.fail[:] = [lambda r: answers[min(len(hub.requests), len(answers) - 1)] if "/tree/" in r.path else None]
        hub.requests.clear()
        return run_leat("ls", "--attempts", "2", URL, env=hub.env)

    row, others = '{"type": "file", "path": "a", "oid": "00", "size": 1}', ""
    for name in "bcc":
        others += ", " + row.replace('"a"', f'"{name}"')
    again = {"Link": f'<{hub.url}/x?cursor=1>; rel="next"'}
    one_line(tree((200, {}, b"<html>")), "not a list")
    one_line(tree((200, {}, b'[{"type": "file", "path": "a"}]')), "how long 'a' is")
    one_line(tree((200, {}, b"[1]")), "without a type")
    one_line(tree((200, {}, f"[{row}, {row}]".encode())), "'a' comes again")
    one_line(tree((200, {}, f"[{row}{others}]".encode())), "'c' twice")
    one_line(tree((200, again, b"[]")), "repeats itself")
    one_line(tree((200, {"Link": '<x>; rel="next"'}, b"[]")), "not understood")
    hub.fail[:] = [lambda r: (200, {}, b"{}") if "/revision/" in r.path else None]
    one_line(run_leat("ls", "--attempts", "2", URL, env=hub.env), "does not name a commit")


def shard(first, n):
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        for i in range(first, first + n):
            for ending, data in (("bin", some_bytes(3000 + i, seed=i)), ("cls", str(i % 3).encode())):
                info = tarfile.TarInfo(f"{i:05}.{ending}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return text.getvalue()


def read_all(lt, url):
    seen = {}
    with lt.Loader(url, batch_size=4, last="short", fields={"k": lt.key(), "b": lt.bytes("bin")}) as loader:
        for keys, blobs in loader:
            seen.update(zip(keys, (bytes(b) for b in blobs)))
    return seen


@pytest.mark.parametrize("form", ["tar", "files"])
def test_indexed_and_trained_on_from_a_folder(hub, run_leat, lt, monkeypatch, tmp_path, form):
    """Webdataset shards, or plain files, of a private repository; the index stays with its commit when the branch moves."""
    known = {f"{i:05}": some_bytes(3000 + i, seed=i) for i in range(40)}
    if form == "tar":
        files = {f"train/{i:02}.tar": shard(i * 10, 10) for i in range(4)}
    else:
        files = {f"train/{k}.bin": v for k, v in known.items()}
    hub.repo.private = True
    hub.users["hf_one"] = {NAME}
    commit = hub.repo.commit(files)
    env = hub.env | {"HF_TOKEN": "hf_one"}
    source = f"{URL}/train" if form == "files" else f"{URL}/train/{{00..03}}.tar"
    run_leat("index", source, tmp_path / "index", env=env, status=0)
    hub.repo.commit({"train/00.tar": b"something else"})
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    got = read_all(lt, str(tmp_path / "index"))
    assert {k.removesuffix(".bin"): v for k, v in got.items()} == known
    assert {d.key.removesuffix(".bin") for d in lt.open(str(tmp_path / "index"))} == set(known)
    shown = run_leat("info", "--json", tmp_path / "index", env=env, status=0).stdout
    assert f"@{commit}" in shown
    assert not any("authorization" in r.headers for r in hub.store.requests)


def test_packed_datasets_are_read_where_they_were_uploaded(hub, run_leat, lt, monkeypatch, tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(20):
        (folder / f"{i}.bin").write_bytes(some_bytes(2000, seed=i))
    run_leat("pack", folder, tmp_path / "set", status=0)
    packed = {
        f"p/{p.relative_to(tmp_path / 'set')}": p.read_bytes() for p in (tmp_path / "set").rglob("*") if p.is_file()
    }
    hub.repo.commit(packed)
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    run_leat("verify", f"{URL}/p", env=hub.env, status=0)
    assert read_all(lt, f"{URL}/p") == {f"{i}.bin": some_bytes(2000, seed=i) for i in range(20)}
