#include "store/sign_ecdsa.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/obj_mac.h>
#include <openssl/param_build.h>
#include <string.h>

#include "base/hash.h"

#define GROUP        "prime256v1"
#define COUNTER_LAST 254
#define POINT        65 /* bytes of an uncompressed point */

/* The order of the curve less two, big-endian: a candidate above it is not taken. */
static const uint8_t limit[LEAT_SIGN_ECDSA_KEY] = {0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff,
                                                   0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17,
                                                   0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x4f};

static void add_one(uint8_t number[LEAT_SIGN_ECDSA_KEY])
{
    for (size_t i = LEAT_SIGN_ECDSA_KEY; i-- && ++number[i] == 0;) {
    }
}

/* NIST SP 800-108 in counter mode, one block of HMAC-SHA256 a candidate: its counter is part of what is hashed. */
leat_status leat_sign_ecdsa_key(const struct leat_sign_keys *keys, uint8_t out[LEAT_SIGN_ECDSA_KEY],
                                struct leat_error *err)
{
    static const uint8_t one[4] = {0, 0, 0, 1};
    static const uint8_t bits[4] = {0, 0, 1, 0}; /* 256 */
    uint8_t candidate[LEAT_SHA256_SIZE];
    struct leat_buf secret;
    struct leat_buf input;
    bool found = false;
    leat_buf_init(&secret, 1024);
    leat_buf_init(&input, 1024);
    leat_buf_printf(&secret, "AWS4A%s", keys->secret_key);
    leat_status rc = leat_buf_check(&secret, "the secret key", err);
    for (unsigned counter = 1; rc == LEAT_OK && !found && counter <= COUNTER_LAST; counter++) {
        leat_buf_clear(&input);
        leat_buf_add(&input, one, sizeof one);
        leat_buf_add(&input, LEAT_SIGN_ECDSA, sizeof LEAT_SIGN_ECDSA); /* with its NUL */
        leat_buf_str(&input, keys->access_key);
        leat_buf_char(&input, (char)counter);
        leat_buf_add(&input, bits, sizeof bits);
        rc = leat_buf_check(&input, "the access key", err);
        if (rc != LEAT_OK)
            break;
        leat_hmac_sha256(secret.data, secret.len, input.data, input.len, candidate);
        found = memcmp(candidate, limit, sizeof limit) <= 0;
    }
    if (rc == LEAT_OK && !found)
        rc = leat_fail(err, LEAT_INTERNAL, "no key for signatures of several regions can be derived");
    if (rc == LEAT_OK) {
        add_one(candidate);
        memcpy(out, candidate, sizeof candidate);
    }
    OPENSSL_cleanse(candidate, sizeof candidate);
    if (secret.data)
        OPENSSL_cleanse(secret.data, secret.len);
    leat_buf_free(&secret);
    leat_buf_free(&input);
    return rc;
}

/* The public key, which OpenSSL wants beside the private one. */
static bool public_of(const BIGNUM *private, uint8_t out[POINT])
{
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    EC_POINT *point = group ? EC_POINT_new(group) : NULL;
    bool ok = point && EC_POINT_mul(group, point, private, NULL, NULL, NULL) == 1 &&
              EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, out, POINT, NULL) == POINT;
    EC_POINT_free(point);
    EC_GROUP_free(group);
    return ok;
}

static EVP_PKEY *key_from(const uint8_t key[LEAT_SIGN_ECDSA_KEY])
{
    uint8_t point[POINT];
    EVP_PKEY *made = NULL;
    OSSL_PARAM *params = NULL;
    BIGNUM *private = BN_secure_new();
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    bool ok = private && build && context && BN_bin2bn(key, LEAT_SIGN_ECDSA_KEY, private) && public_of(private, point);
    if (ok) {
        BN_set_flags(private, BN_FLG_CONSTTIME);
        ok = OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, GROUP, 0) == 1 &&
             OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point) == 1 &&
             OSSL_PARAM_BLD_push_BN_pad(build, OSSL_PKEY_PARAM_PRIV_KEY, private, LEAT_SIGN_ECDSA_KEY) == 1;
    }
    params = ok ? OSSL_PARAM_BLD_to_param(build) : NULL;
    if (!params || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &made, EVP_PKEY_KEYPAIR, params) != 1)
        made = NULL;
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(context);
    BN_clear_free(private);
    return made;
}

leat_status leat_sign_ecdsa(const uint8_t key[LEAT_SIGN_ECDSA_KEY], const char *text, size_t n,
                            char out[LEAT_SIGN_ECDSA_HEX], struct leat_error *err)
{
    uint8_t signature[(LEAT_SIGN_ECDSA_HEX - 1) / 2];
    size_t signature_n = sizeof signature;
    EVP_PKEY *pkey = key_from(key);
    EVP_MD_CTX *context = pkey ? EVP_MD_CTX_new() : NULL;
    bool ok = context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, pkey) == 1 &&
              EVP_DigestSign(context, signature, &signature_n, (const unsigned char *)text, n) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(pkey);
    if (!ok)
        return leat_fail(err, LEAT_NO_MEMORY, "OpenSSL could not sign a request (ECDSA)");
    leat_hex(signature, signature_n, out);
    return LEAT_OK;
}
