"""Fails when a header does not compile alone, or twice; public ones also as strict C99 and C++."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from tree import ROOT, files, finish

COMMON = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include"]
PRIVATE = ["gcc", "-x", "c", "-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}/src", *COMMON]
STRICT = ["gcc", "-x", "c", "-std=c99", "-pedantic-errors", *COMMON]
CXX = ["g++", "-x", "c++", "-std=c++11", "-pedantic-errors", *COMMON]


def compile_alone(job):
    path, command = job
    text = f'#include "{path}"\n#include "{path}"\n'
    done = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [(path, 0, f"does not compile alone ({command[0]} {command[3]})\n{done.stderr}")]


def main():
    jobs = [(path, PRIVATE) for path in files({".h"}, "src", "include")]
    for path in files({".h"}, "include"):
        jobs += [(path, STRICT), (path, CXX)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        finish([problem for problems in pool.map(compile_alone, jobs) for problem in problems])


if __name__ == "__main__":
    main()
