/* AWS Signature Version 4A: a request signed once for a set of regions, by ECDSA on P-256 with a key that is derived
 * from the secret one. For leat_sign(), which writes what is signed. */
#ifndef LEAT_STORE_SIGN_ECDSA_H
#define LEAT_STORE_SIGN_ECDSA_H

#include "store/sign.h"

#define LEAT_SIGN_ECDSA     "AWS4-ECDSA-P256-SHA256"
#define LEAT_SIGN_ECDSA_KEY 32
#define LEAT_SIGN_ECDSA_HEX (2 * 72 + 1) /* the longest DER of two numbers of 256 bits, and a NUL */

/* The private key, big-endian. The caller wipes it. */
leat_status leat_sign_ecdsa_key(const struct leat_sign_keys *keys, uint8_t out[LEAT_SIGN_ECDSA_KEY],
                                struct leat_error *err);

/* The signature over a text, DER in hexadecimal; another one each time. */
leat_status leat_sign_ecdsa(const uint8_t key[LEAT_SIGN_ECDSA_KEY], const char *text, size_t n,
                            char out[LEAT_SIGN_ECDSA_HEX], struct leat_error *err);

#endif
