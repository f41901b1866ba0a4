/* Checksums and digests: CRC32C, XXH3-64, MD5, SHA-256, HMAC-SHA-256, and hexadecimal. */
#ifndef LEAT_BASE_HASH_H
#define LEAT_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli). Start with 0; feed the result back in to go on. */
uint32_t leat_crc32c(uint32_t crc, const void *data, size_t n);

/* The same by table, whatever the processor: what the fast one is tested against. */
uint32_t leat_crc32c_portable(uint32_t crc, const void *data, size_t n);

/* Which implementation leat_crc32c uses here: "sse4.2", "armv8" or "table". */
const char *leat_crc32c_kind(void);

/* XXH3, 64 bits, seed 0. */
uint64_t leat_xxh3(const void *data, size_t n);

/* The same for processors with AVX2, which leat_xxh3 takes where it can. */
uint64_t leat_xxh3_avx2(const void *data, size_t n);

/* XXH3 in pieces. `open` returns NULL when memory runs out. A digest is of what was added since open or reset, and
 * adding may go on after it. */
struct leat_xxh3;
struct leat_xxh3 *leat_xxh3_open(void);
void leat_xxh3_reset(struct leat_xxh3 *h);
void leat_xxh3_add(struct leat_xxh3 *h, const void *data, size_t n);
uint64_t leat_xxh3_digest(const struct leat_xxh3 *h);
void leat_xxh3_close(struct leat_xxh3 *h); /* NULL is allowed */

#define LEAT_SHA256_SIZE 32

void leat_sha256(const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE]);
void leat_hmac_sha256(const void *key, size_t key_n, const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE]);

#define LEAT_MD5_SIZE 16

/* What buckets tag objects with; not for what somebody might forge. */
void leat_md5(const void *data, size_t n, uint8_t out[LEAT_MD5_SIZE]);

/* Of many messages at once, which is several times as fast: each one's digest goes to its `out`. */
struct leat_md5_input {
    const void *data;
    size_t n;
    uint8_t *out;
};
void leat_md5_many(const struct leat_md5_input *inputs, size_t n);

/* SHA-256 in pieces. `open` returns NULL when memory runs out; `finish` frees it. */
struct leat_sha256;
struct leat_sha256 *leat_sha256_open(void);
void leat_sha256_add(struct leat_sha256 *h, const void *data, size_t n);
void leat_sha256_finish(struct leat_sha256 *h, uint8_t out[LEAT_SHA256_SIZE]); /* out may be NULL */

/* Lower-case hexadecimal with a NUL: 2n+1 bytes. */
void leat_hex(const void *data, size_t n, char *out);
bool leat_unhex(const char *text, void *out, size_t n); /* exactly 2n digits, either case */

#endif
