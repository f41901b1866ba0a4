/* Certificates for servers of Leat's own. */
#ifndef LEAT_NET_CERT_H
#define LEAT_NET_CERT_H

#include "base/error.h"

/* A fresh key and a certificate signed with itself, both as PEM text that the caller frees. It is for localhost,
 * *.localhost, 127.0.0.1, ::1 and `address` (numeric; NULL: none further), from a day ago for a year. */
leat_status leat_cert_self_signed(const char *address, char **cert_pem, char **key_pem, struct leat_error *err);

#define LEAT_CERT_PIN 64
/* What the HTTP client compares a server's key with: "sha256//…", of the public key in a certificate (PEM). */
leat_status leat_cert_pin(const char *cert_pem, char out[LEAT_CERT_PIN], struct leat_error *err);

#endif
