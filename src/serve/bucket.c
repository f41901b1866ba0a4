#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "serve/ops.h"
#include "serve/xml.h"

#define XML_MAX ((size_t)16 << 20)

void leat_serve_list_buckets(struct leat_serve_call *c)
{
    struct leat_serve_names names = {0};
    struct leat_error err;
    struct leat_buf xml;
    if (leat_serve_buckets(c->serve->folder, &names, &err) != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        leat_serve_names_free(&names);
        return;
    }
    leat_buf_init(&xml, XML_MAX);
    leat_buf_str(&xml, LEAT_SERVE_XML_HEAD "<ListAllMyBucketsResult" LEAT_SERVE_XML_NS
                                           "><Owner><ID>leat</ID><DisplayName>leat</DisplayName></Owner><Buckets>");
    for (size_t i = 0; i < names.n; i++) {
        char name[256];
        memcpy(name, names.text + names.entry[i].at, names.entry[i].n);
        name[names.entry[i].n] = '\0';
        leat_buf_str(&xml, "<Bucket>");
        leat_serve_xml_string(&xml, "Name", name);
        leat_serve_xml_time(&xml, "CreationDate",
                            leat_serve_bucket_modified_s(c->serve->folder, name) * (int64_t)LEAT_S);
        leat_buf_str(&xml, "</Bucket>");
    }
    leat_buf_str(&xml, "</Buckets></ListAllMyBucketsResult>\n");
    leat_serve_names_free(&names);
    leat_serve_reply_xml(c, 200, &xml);
}

void leat_serve_head_bucket(struct leat_serve_call *c)
{
    if (c->serve->options.region)
        leat_request_add_header(c->x, "x-amz-bucket-region", c->serve->options.region);
    leat_serve_reply(c, 200, "", "", 0);
}

void leat_serve_create_bucket(struct leat_serve_call *c)
{
    struct leat_error err;
    leat_status rc = leat_serve_bucket_create(c->serve->folder, c->bucket_name, &err);
    if (rc == LEAT_OK) {
        char location[300];
        snprintf(location, sizeof location, "/%s", c->bucket_name);
        leat_request_add_header(c->x, "Location", location);
        leat_serve_reply(c, 200, "", "", 0);
    } else if (rc == LEAT_EXISTS) {
        leat_serve_fail(c, LEAT_SERVE_BUCKET_ALREADY_OWNED_BY_YOU);
    } else if (rc == LEAT_INVALID) {
        leat_serve_fail(c, LEAT_SERVE_INVALID_BUCKET_NAME);
    } else {
        leat_serve_fail_status(c, &err);
    }
}

void leat_serve_delete_bucket(struct leat_serve_call *c)
{
    struct leat_error err;
    leat_status rc = leat_serve_bucket_remove(c->serve->folder, c->bucket_name, &err);
    if (rc == LEAT_OK)
        leat_serve_reply(c, 204, "", "", 0);
    else if (rc == LEAT_BUSY)
        leat_serve_fail(c, LEAT_SERVE_BUCKET_NOT_EMPTY);
    else
        leat_serve_fail_status(c, &err);
}

void leat_serve_get_location(struct leat_serve_call *c)
{
    struct leat_buf xml;
    const char *region = c->serve->options.region;
    leat_buf_init(&xml, 1024);
    leat_buf_str(&xml, LEAT_SERVE_XML_HEAD "<LocationConstraint" LEAT_SERVE_XML_NS ">");
    /* S3 says nothing for its first region. */
    if (region && strcmp(region, "us-east-1") != 0)
        leat_serve_xml_text(&xml, region, strlen(region));
    leat_buf_str(&xml, "</LocationConstraint>\n");
    leat_serve_reply_xml(c, 200, &xml);
}
