"""Writes on a condition against `leat serve`: the promises of the C interface that no command shows."""

import subprocess


def test_store_keeps_its_promises_against_leat_serve(leat_build, clean_env, serve, bucket_dir):
    server = serve(bucket_dir)
    command = [str(leat_build / "tests" / "s3" / "store_calls"), "bucket"]
    done = subprocess.run(
        command, env={**clean_env, **server.s3_env()}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
