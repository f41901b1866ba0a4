#include "store/hide.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "store/aws.h"

/* Texts are cut to a size, so the beginning of a secret is looked for. Shorter ones are words that any message has. */
#define BEGINNING 8

static void cut(char *text, const char *secret, size_t n)
{
    char beginning[BEGINNING + 1] = "";
    if (!secret || n < BEGINNING)
        return;
    memcpy(beginning, secret, BEGINNING);
    char *at = strstr(text, beginning);
    if (at)
        *at = '\0';
}

/* S3's own names ("x-amz-server-side-encryption-aws-kms-key-id") hold what a refusal may well be about, but for one. */
static void cut_line(char *text, const char *line, size_t n)
{
    static const char own[] = "x-amz-";
    static const char key[] = "customer-key:";
    const char *name = n > 2 ? line + 2 : line;
    const char *colon = memchr(line, ':', n);
    if (!colon || colon < name)
        return;
    const char *value = colon + 1 + strspn(colon + 1, " ");
    size_t key_n = strlen(key);
    bool secret = strncasecmp(name, own, strlen(own)) != 0 ||
                  ((size_t)(colon + 1 - name) >= key_n && strncasecmp(colon + 1 - key_n, key, key_n) == 0);
    if (secret && value < line + n)
        cut(text, value, (size_t)(line + n - value));
}

void leat_hide_secrets(char *text, const struct leat_aws *aws, const char *headers)
{
    static const char *const marks[] = {"Signature=", "Bearer ", "Basic ", "SharedKey ", "sig="};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char *at = strstr(text, marks[i]);
        if (at)
            *at = '\0';
    }
    if (aws->secret_key)
        cut(text, aws->secret_key, strlen(aws->secret_key));
    if (aws->session_token)
        cut(text, aws->session_token, strlen(aws->session_token));
    while (headers && *headers) {
        size_t n = strcspn(headers, "\n");
        cut_line(text, headers, n);
        headers += n + (headers[n] == '\n');
    }
}
