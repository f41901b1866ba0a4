#include "store/s3_sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const char *leat_s3_upload(const char *upload)
{
    const char *line = begins(upload, LEAT_S3_SUMMED) || begins(upload, LEAT_S3_WHOLE) ? strchr(upload, '\n') : NULL;
    return line ? line + 1 : upload;
}

/* Whether this request is to carry checksums. Google's own servers take S3's calls, but not these headers of theirs. */
static bool wanted(const struct bucket *b, const struct leat_store_op *op)
{
    if (b->sums_refused || b->unpacks || op->own->unsummed)
        return false;
    switch (op->verb) {
    case LEAT_STORE_PUT:
        return true;
    case LEAT_STORE_UPLOAD_OPEN:
        return !op->source; /* parts that the server copies by itself have none of ours */
    case LEAT_STORE_UPLOAD_PART:
    case LEAT_STORE_UPLOAD_FINISH:
        return leat_s3_upload(op->upload) != op->upload;
    default:
        return false;
    }
}

bool leat_s3_sums_whole(const struct leat_store_op *op, uint64_t *crc)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < op->parts_n; i++) {
        if (!op->parts[i].summed)
            return false;
        all = leat_checksum_join(LEAT_CHECKSUM_CRC32C, all, op->parts[i].crc32c, op->parts[i].size);
    }
    *crc = all;
    return true;
}

void leat_s3_sums_add(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r)
{
    uint64_t whole;
    op->own->summed = false;
    if (op->own->looking || !wanted(b, op))
        return;
    op->own->summed = true;
    if (op->verb == LEAT_STORE_UPLOAD_OPEN) {
        leat_bucket_add_header(r, "x-amz-checksum-algorithm", "CRC32C");
        if (!b->directory) /* which know no other than the parts' */
            leat_bucket_add_header(r, "x-amz-checksum-type", "FULL_OBJECT");
        return;
    }
    if (op->verb == LEAT_STORE_UPLOAD_FINISH) {
        if (!begins(op->upload, LEAT_S3_WHOLE) || !leat_s3_sums_whole(op, &whole))
            return;
        leat_checksum_write(LEAT_CHECKSUM_CRC32C, whole, r->sum);
        leat_bucket_add_header(r, "x-amz-checksum-type", "FULL_OBJECT");
    } else {
        leat_checksum_write(LEAT_CHECKSUM_CRC32C, leat_crc32c(0, op->data, op->data_n), r->sum);
    }
    leat_bucket_add_header(r, "x-amz-checksum-crc32c", r->sum);
}

void leat_s3_sums_add_part(const struct leat_store_op *op, uint32_t part, struct leat_buf *xml)
{
    char text[LEAT_CHECKSUM_TEXT];
    if (!op->own->summed || !op->parts[part].summed)
        return;
    leat_checksum_write(LEAT_CHECKSUM_CRC32C, op->parts[part].crc32c, text);
    leat_buf_printf(xml, "<ChecksumCRC32C>%s</ChecksumCRC32C>", text);
}

leat_status leat_s3_sums_mark(struct leat_store_op *op, const char *id, struct leat_error *err)
{
    const char *mark = !op->own->summed ? "" : op->own->call.head.checksum_whole ? LEAT_S3_WHOLE : LEAT_S3_SUMMED;
    if (strlen(mark) + strlen(id) >= LEAT_UPLOAD_ID_MAX)
        return leat_fail(err, LEAT_SERVER, "the server's id of the upload is too long");
    snprintf(op->upload_id, LEAT_UPLOAD_ID_MAX, "%s%s", mark, id);
    return LEAT_OK;
}

bool leat_s3_sums_refused(struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    static const char *const codes[] = {"",           "NotImplemented",       "InvalidArgument", "InvalidRequest",
                                        "BadRequest", "UnsupportedOperation", "MalformedXML",    "InvalidHeader"};
    unsigned code = op->own->call.head.code;
    bool known = false;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        known |= strcmp(answer->code, codes[i]) == 0;
    if (!op->own->summed || !known || (code != 400 && code != 501))
        return false;
    op->own->unsummed = true;
    return true;
}

void leat_s3_sums_settled(struct bucket *b, struct leat_store_op *op)
{
    if (!op->own->unsummed || b->sums_refused)
        return;
    b->sums_refused = true;
    leat_log(LEAT_LOG_INFO, "the server takes no checksums with what is written; what it says of it is compared still");
}

/* Part 1 says how long they are; whether the others are as long is seen by where the last but one of them is. */
void leat_s3_sums_ask_size(struct leat_store_op *op, struct bucket_request *r)
{
    uint32_t part = op->own->sizing == 1 ? 1 : op->own->object.checksum.parts - 1;
    snprintf(r->part, sizeof r->part, "%u", part);
    leat_bucket_add_query(r, "partNumber", r->part);
    snprintf(r->pin, sizeof r->pin, "%s", op->own->object.etag);
    leat_bucket_add_header(r, "if-match", r->pin);
}

static bool take_size(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    struct leat_checksum *c = &op->own->object.checksum;
    uint64_t size = op->own->object.size;
    uint64_t n = head->range_last - head->range_first + 1;
    if (head->code != 206 || !head->has_range || head->range_total != size ||
        strcmp(head->etag, op->own->object.etag) != 0)
        return false;
    if (op->own->sizing == 2)
        return n == c->part_size && head->range_first == (c->parts - 2) * c->part_size;
    c->part_size = n;
    return head->range_first == 0 && (size - 1) / n + 1 == c->parts;
}

bool leat_s3_sums_sizes(struct leat_store_op *op)
{
    struct leat_checksum *c = &op->own->object.checksum;
    bool good = true;
    if (!op->own->sizing && (!op->verify || c->kind || !leat_checksum_of_parts(&op->own->call.head, c)))
        return false;
    if (!op->own->sizing && c->parts == 1)
        c->part_size = op->own->object.size;
    if (op->own->sizing)
        good = take_size(op);
    if (good && op->own->sizing < 2 && c->parts > 1u + op->own->sizing && op->own->object.size) {
        op->own->sizing++;
        return true;
    }
    if (!good || !c->part_size) /* parts of different lengths, or a server that does not say: nothing to compare with */
        *c = (struct leat_checksum){0};
    op->own->sizing = 0;
    op->status = LEAT_OK;
    return false;
}
