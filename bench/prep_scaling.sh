#!/bin/sh
# Image preparation on 1 … N cores, self-contained: builds prep and what it needs of base with plain cc, makes its own
# pictures in memory and prints one line of JSON per run. Needs libjpeg-turbo's headers; PNG and WebP are left out
# where theirs are missing, xxHash and OpenSSL are not needed.
#   bench/prep_scaling.sh [SECONDS] [THREADS…]
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-3}
[ $# -gt 0 ] && shift
cores=$(nproc)
if [ $# -eq 0 ]; then
    set -- 1 2 4 8 16
fi
out=${OUT_DIR:-build/prep-scaling}
mkdir -p "$out"
libs=""
flags=""
have() {
    echo "#include <$1>" | ${CC:-cc} -E -xc - >/dev/null 2>&1
}
if have spng.h; then libs="$libs -lspng"; else flags="$flags -DLEAT_WITHOUT_PNG"; fi
if have webp/decode.h; then libs="$libs -lwebp"; else flags="$flags -DLEAT_WITHOUT_WEBP"; fi
# leat_key() wants SHA-256, which nothing here calls.
cat >"$out/stub.c" <<'STUB'
#include <stdlib.h>
#include "base/hash.h"
void leat_sha256(const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE])
{
    (void)data, (void)n, (void)out;
    abort();
}
STUB
# shellcheck disable=SC2086
${CC:-cc} -std=gnu11 -O3 -D_GNU_SOURCE -ffp-contract=off -fno-strict-aliasing -w $flags -Isrc -Iinclude \
    bench/bench_prep.c "$out/stub.c" src/prep/*.c src/base/abi.c src/base/buf.c src/base/bytes.c src/base/error.c src/base/parse.c \
    src/base/library.c src/base/random.c -o "$out/bench_prep" -ljpeg $libs -lm -lpthread
echo "{\"cpu\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)\", \"cores\": $cores}"
for what in bare exact fast; do
    for threads in "$@"; do
        "$out/bench_prep" --what $what --threads "$threads" --seconds "$seconds" --pin --own 64
    done
done
