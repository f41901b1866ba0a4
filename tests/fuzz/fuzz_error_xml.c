#include "store/s3_xml.h"

#include "fuzz.h"

#define ENDS(field) PROMISE(memchr(answer.field, '\0', sizeof answer.field))

FUZZ(error_xml)
{
    struct leat_s3_answer answer;
    leat_s3_parse_answer((const char *)data, size, &answer);
    ENDS(root);
    ENDS(code);
    ENDS(message);
    ENDS(region);
    ENDS(etag);
    ENDS(upload_id);
    char *text = fuzz_text(data, size);
    PROMISE(leat_s3_parse_time(text) >= 0);
    free(text);
}
