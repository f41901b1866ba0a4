#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "store/s3.h"

#define MD5_SIZE 16

/* The MD5 in a part's ETag, "\"0123…\"" with or without its quotes. */
static bool part_md5(const char *etag, uint8_t out[MD5_SIZE])
{
    char hex[2 * MD5_SIZE + 1];
    size_t quoted = *etag == '"';
    size_t n = strlen(etag);
    if (n != 2 * MD5_SIZE + 2 * quoted)
        return false;
    memcpy(hex, etag + quoted, 2 * MD5_SIZE);
    hex[2 * MD5_SIZE] = '\0';
    return leat_unhex(hex, out, MD5_SIZE);
}

bool leat_s3_parts_etag(const struct leat_store_part *parts, uint32_t n, char out[LEAT_ETAG_MAX])
{
    uint8_t digest[MD5_SIZE];
    char hex[2 * MD5_SIZE + 1];
    EVP_MD_CTX *md5 = EVP_MD_CTX_new();
    bool ok = md5 && EVP_DigestInit_ex(md5, EVP_md5(), NULL) == 1;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = part_md5(parts[i].etag, digest) && EVP_DigestUpdate(md5, digest, sizeof digest) == 1;
    ok = ok && EVP_DigestFinal_ex(md5, digest, NULL) == 1;
    EVP_MD_CTX_free(md5);
    if (!ok)
        return false;
    leat_hex(digest, sizeof digest, hex);
    snprintf(out, LEAT_ETAG_MAX, "\"%s-%u\"", hex, n);
    return true;
}
