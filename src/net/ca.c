/* Where the machine keeps the certificates it trusts. A libcurl that comes with the distribution would know; the one in
 * a wheel runs on all of them. */
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/http.h"

/* OpenSSL finds certificates in a folder by names like 5ad8a5d6.0; without any it is of no use. */
static bool has_hashes(const char *folder)
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (const struct dirent *e; dir && !found && (e = readdir(dir));)
        found = strlen(e->d_name) == 10 && strcmp(e->d_name + 8, ".0") == 0;
    if (dir)
        closedir(dir);
    return found;
}

const char *leat_http_ca_bundle(void)
{
    static const char *const variables[] = {"LEAT_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR",
                                            "CURL_CA_BUNDLE"};
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Alpine, Gentoo */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL, Amazon Linux */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL 7 and later */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/var/lib/ca-certificates/ca-bundle.pem",            /* openSUSE, SLES 12 and later */
        "/etc/ssl/cert.pem",                                 /* Alpine, BSDs */
    };
    static const char *const folders[] = {"/etc/ssl/certs", "/etc/pki/tls/certs", "/var/lib/ca-certificates/openssl"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *set = getenv(variables[i]);
        if (set && *set)
            return set;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (access(files[i], R_OK) == 0)
            return files[i];
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (has_hashes(folders[i]))
            return folders[i];
    }
    return NULL;
}
