/* Says where buckets are, given as JSON lines on standard input, for the comparison with botocore's rules in
 * tests/py/test_s3_site.py. Answers each with {"url", "region", "service"} or {"error"}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/s3_site.h"

static void answer(const json_t *request)
{
    struct leat_s3_asked asked = {
        .bucket = json_string_value(json_object_get(request, "bucket")),
        .region = json_string_value(json_object_get(request, "region")),
        .endpoint = json_string_value(json_object_get(request, "endpoint")),
        .fips = json_is_true(json_object_get(request, "fips")),
        .dual_stack = json_is_true(json_object_get(request, "dual_stack")),
    };
    struct leat_s3_site site;
    struct leat_error err;
    char url[700];
    json_t *out;
    if (leat_s3_locate(&asked, &site, &err) == LEAT_OK) {
        snprintf(url, sizeof url, site.virtual_host ? "https://%s.%s" : "https://%2$s/%1$s", site.label, site.host);
        out = json_pack("{s:s, s:s, s:s, s:b}", "url", url, "region", site.region, "service", site.service, "directory",
                        site.directory);
    } else {
        out = json_pack("{s:s}", "error", err.text);
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(out);
}

int main(void)
{
    static char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        json_t *request = json_loads(line, 0, NULL);
        if (!request)
            abort();
        answer(request);
        json_decref(request);
    }
    return 0;
}
