"""Second requests for what is late: asked for where a loader's user wants them, and right whichever answer wins."""

import shutil

import pytest


@pytest.mark.parametrize("when", ["on", "off", None])
def test_a_loader_asks_twice_where_it_was_told_to(lt, runtime, blobs, serve, bucket_dir, monkeypatch, when):
    shutil.copytree(blobs.path, bucket_dir / "bucket" / "set")
    server = serve(bucket_dir, "--fault", "late=0.03", "--fault-only", "chunks")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    if when:
        monkeypatch.setenv("LEAT_HEDGE", when)
    else:  # the default: yes, since nobody is paid for each request to this server
        monkeypatch.delenv("LEAT_HEDGE")
    fields = {"b": lt.bytes("bin"), "i": lt.index()}
    seen = []
    with lt.Loader("s3://bucket/set", batch_size=4, fields=fields, ram="700kb", window=4, timeout=60) as loader:
        for _ in range(200):  # what is late in the middle of much else that is late is not asked for again
            seen.append(sorted(int(i) for _, numbers in loader for i in numbers))
            stats = loader.stats()
            if stats["hedges"] or stats["requests"] > (150 if when == "off" else 5000):
                break
    assert all(epoch == seen[0] for epoch in seen)
    assert (stats["hedges"] > 0) == (when != "off")
    assert stats["hedges"] * 50 <= stats["requests"]


def test_hedge_is_one_of_three(run_leat):
    assert "auto, on or off" in run_leat("ls", "/tmp", "--hedge", "maybe", status=2).stderr
