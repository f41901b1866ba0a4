#include "net/cert.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define DAY_S 86400L

static bool add_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = e && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static bool fill_in(X509 *cert, EVP_PKEY *key, const char *address)
{
    char names[300];
    uint64_t serial = 0;
    X509_NAME *name = X509_get_subject_name(cert);
    snprintf(names, sizeof names, "DNS:localhost,DNS:*.localhost,IP:127.0.0.1,IP:::1%s%.200s", address ? ",IP:" : "",
             address ? address : "");
    /* Clients that remember a serial number of an issuer refuse another certificate with the same. */
    if (RAND_bytes((unsigned char *)&serial, sizeof serial) != 1)
        return false;
    return X509_set_version(cert, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), serial >> 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_S) &&
           X509_gmtime_adj(X509_getm_notAfter(cert), 365 * DAY_S) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"leat", -1, -1, 0) == 1 &&
           X509_set_issuer_name(cert, name) == 1 && X509_set_pubkey(cert, key) == 1 &&
           add_extension(cert, NID_basic_constraints, "critical,CA:TRUE") &&
           add_extension(cert, NID_subject_alt_name, names) && X509_sign(cert, key, EVP_sha256()) > 0;
}

/* The text in a memory BIO, owned by the caller. */
static char *take_text(BIO *bio)
{
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    char *text = n > 0 ? malloc((size_t)n + 1) : NULL;
    if (text) {
        memcpy(text, data, (size_t)n);
        text[n] = '\0';
    }
    return text;
}

leat_status leat_cert_self_signed(const char *address, char **cert_pem, char **key_pem, struct leat_error *err)
{
    char *cert_text = NULL;
    char *key_text = NULL;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    BIO *cert_bio = BIO_new(BIO_s_mem());
    BIO *key_bio = BIO_new(BIO_s_mem());
    bool ok = key && cert && cert_bio && key_bio && fill_in(cert, key, address) &&
              PEM_write_bio_X509(cert_bio, cert) == 1 &&
              PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) == 1;
    if (ok) {
        cert_text = take_text(cert_bio);
        key_text = take_text(key_bio);
    }
    BIO_free(cert_bio);
    BIO_free(key_bio);
    X509_free(cert);
    EVP_PKEY_free(key);
    if (!cert_text || !key_text) {
        free(cert_text);
        free(key_text);
        if (ok)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for a certificate");
        return leat_fail(err, LEAT_TLS, "cannot make a certificate%s%s", address ? " for " : "",
                         address ? address : "");
    }
    *cert_pem = cert_text;
    *key_pem = key_text;
    return LEAT_OK;
}

leat_status leat_cert_pin(const char *cert_pem, char out[LEAT_CERT_PIN], struct leat_error *err)
{
    static const char scheme[] = "sha256//";
    uint8_t digest[LEAT_SHA256_SIZE];
    unsigned char *der = NULL;
    BIO *bio = BIO_new_mem_buf(cert_pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int n = cert ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der) : -1;
    if (n > 0) {
        leat_sha256(der, (size_t)n, digest);
        memcpy(out, scheme, sizeof scheme);
        EVP_EncodeBlock((unsigned char *)out + sizeof scheme - 1, digest, sizeof digest);
    }
    OPENSSL_free(der);
    X509_free(cert);
    BIO_free(bio);
    return n > 0 ? LEAT_OK : leat_fail(err, LEAT_TLS, "this is not a certificate");
}
