#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "store/s3.h"

#define MD5_SIZE LEAT_MD5_SIZE

bool leat_s3_parts_etag(const struct leat_store_part *parts, uint32_t n, char out[LEAT_ETAG_MAX])
{
    uint8_t digest[LEAT_CHECKSUM_BYTES];
    char hex[2 * MD5_SIZE + 1];
    EVP_MD_CTX *md5 = EVP_MD_CTX_new();
    bool ok = md5 && EVP_DigestInit_ex(md5, EVP_md5(), NULL) == 1;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = leat_checksum_etag_md5(parts[i].etag, digest) && EVP_DigestUpdate(md5, digest, MD5_SIZE) == 1;
    ok = ok && EVP_DigestFinal_ex(md5, digest, NULL) == 1;
    EVP_MD_CTX_free(md5);
    if (!ok)
        return false;
    leat_hex(digest, MD5_SIZE, hex);
    snprintf(out, LEAT_ETAG_MAX, "\"%s-%u\"", hex, n);
    return true;
}
