/* What the public header leat/leat.h offers of base. */
#include "base/parse.h"
#include "leat/leat.h"

const char *leat_version(void)
{
    return LEAT_VERSION_STRING;
}

leat_status leat_text_size(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    return leat_parse_size(text, what, out, err);
}

leat_status leat_text_duration(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    return leat_parse_duration(text, what, out, err);
}
