"""What warm.py runs is like a program that Python was started for, so that tests may use it in its place."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from loading import SLOW, wait_until, warm_python

pytestmark = pytest.mark.python_only

SAYS = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['MINE'], __name__, input(), flush=True)"


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("raise ValueError('mine')", 1, "ValueError: mine\n"),
        ("os.kill(os.getpid(), 15)", -15, ""),
    ],
)
def test_arguments_folder_environment_files_and_status_are_its_own(tmp_path, end, status, said):
    script = tmp_path / "says.py"
    script.write_text(f"{SAYS}\n{end}\n")
    for program in (["-c", script.read_text()], [script], ["-m", "says"]):
        done = subprocess.run(
            warm_python(*program, "one", "two words"),
            cwd=tmp_path,
            env={**os.environ, "MINE": "yes"},
            input="read\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=60 * SLOW,
        )
        assert done.stdout == f"['one', 'two words'] {tmp_path} yes __main__ read\n", done.stderr
        assert done.returncode == status
        assert done.stderr.endswith(said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_stands_for_it(number):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    process = subprocess.Popen(warm_python("-c", code), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    pid = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(60 * SLOW) == -number
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the program")
    process.stdout.close()


def test_what_it_has_forked_ends_with_it_when_it_is_killed():
    code = "import os, time; print(os.getpid() if os.fork() else '', flush=True); time.sleep(600)"
    process = subprocess.Popen(warm_python("-c", code), stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.kill()
    process.wait()
    assert process.stdout.read() is not None  # ends when nobody has the pipe any more
    process.stdout.close()
