"""docs/random.md, taken at its word: a second implementation, and the C one under different compilers."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = re.search(r"```golden\n(.*?)```", (ROOT / "docs" / "random.md").read_text(), flags=re.S).group(1)
M32 = 2**32 - 1
M64 = 2**64 - 1


def block(key, stream, index):
    c0, c1, c2, c3 = index & M32, index >> 32, stream & M32, stream >> 32
    k0, k1 = key & M32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & M32, p0 >> 32 ^ c3 ^ k1, p0 & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def random_u64(key, stream, index):
    b = block(key, stream, index)
    return b[0] | b[1] << 32


def make_key(purpose, a, b, data=b""):
    def sha(x):
        return hashlib.sha256(x).digest()

    numbers = b"".join(x.to_bytes(8, "little") for x in (a, b, len(data), 0))
    return int.from_bytes(sha(sha(purpose.encode()) + numbers + sha(data))[:8], "little")


class Draws:
    def __init__(self, key, stream):
        self.numbers = (x for index in range(2**64) for x in block(key, stream, index))

    def u32(self):
        return next(self.numbers)

    def u64(self):
        low = self.u32()
        return low | self.u32() << 32

    def below(self, n):
        while True:
            product = self.u64() * n
            if product & M64 >= 2**64 % n:
                return product >> 64

    def unit(self):
        return (self.u64() >> 11) * 2.0**-53


def shuffle(key, stream, v):
    draws = Draws(key, stream)
    for i in range(len(v), 1, -1):
        j = draws.below(i)
        v[i - 1], v[j] = v[j], v[i - 1]
    return v


def mix(x):
    for _ in range(2):
        x ^= x >> 32
        x = x * 0xD6E8FEB86659FD93 & M64
    return x ^ x >> 32


def permute(key, n, i):
    if n <= 256:
        return shuffle(key, n, list(range(n)))[i]
    bits = (n - 1).bit_length()
    lb = bits // 2
    rb = bits - lb
    keys = [random_u64(key, n, j) for j in range(8)]
    while True:
        left, right = i >> rb, i & (1 << rb) - 1
        for j in range(0, 8, 2):
            left ^= mix(right ^ keys[j]) & (1 << lb) - 1
            right ^= mix(left ^ keys[j + 1]) & (1 << rb) - 1
        i = left << rb | right
        if i < n:
            return i


def expected_lines():
    for key, stream, index in [
        (0, 0, 0),
        (M64, M64, M64),
        (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88),
        (1, 2, 3),
    ]:
        words = " ".join(f"{x:08x}" for x in block(key, stream, index))
        yield f"block {key:016x} {stream:016x} {index:016x}: {words}"
    yield f"key order 0 0 -: {make_key('order', 0, 0):016x}"
    key = make_key("order", 7, 3)
    yield f"key order 7 3 -: {key:016x}"
    yield f"key augment 1 {M64} abc: {make_key('augment', 1, M64, b'abc'):016x}"
    draws = Draws(key, 5)
    yield "u32: " + " ".join(f"{draws.u32():08x}" for _ in range(5))
    yield "u64: " + " ".join(f"{draws.u64():016x}" for _ in range(3))
    yield "below: " + " ".join(str(draws.below(n)) for n in (1, 2, 6, 1000, 1000003, 2**63 + 1, M64))
    yield "unit: " + " ".join(f"{draws.unit():.17g}" for _ in range(3))
    yield "shuffle: " + " ".join(map(str, shuffle(key, 9, list(range(16)))))
    for n in (1, 2, 6, 100, 256, 257, 1000, 65536, 1000003, 10**12, M64):
        step = n // 7 if n > 8 else 1
        values = " ".join(str(permute(key, n, k * step)) for k in range(min(8, n)))
        yield f"permutation {key:016x} {n}: {values}"


def test_the_specification_gives_the_golden_values():
    assert list(expected_lines()) == GOLDEN.splitlines()


@pytest.mark.parametrize(
    ("compiler", "optimisation"),
    [
        ("clang", "-O3 -march=native -ffast-math"),
        ("gcc", "-O0"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (("gcc", "-O3"), ("gcc", "-O3 -march=native -ffast-math"), ("clang", "-O0"), ("clang", "-O3"))
        ),
    ],
)
def test_every_compiler_gives_the_golden_values(compiler, optimisation, tmp_path):
    assert shutil.which(compiler), f"{compiler} is missing: tools/deps test installs it"
    program = tmp_path / "golden"
    base = ROOT / "src" / "base"
    sources = [
        ROOT / "tests/unit/golden_random.c",
        base / "random.c",
        base / "bytes.c",
        base / "hash.c",
        base / "xxh3_avx2.c",
    ]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include", *optimisation.split()]
    command = [compiler, *flags, *map(str, sources), "-lcrypto", "-lxxhash", "-pthread", "-o", str(program)]
    subprocess.run(command, check=True)
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == GOLDEN
