/* A strict reader for the part of TOML that settings need: [tables] (dotted too), bare keys, basic and literal
 * strings on one line, numbers, booleans, arrays of these (over several lines too), comments.
 * Anything else of TOML (dates, inline tables, arrays of tables, quoted keys, multi-line strings, hexadecimal,
 * inf and nan) is refused with its line. */
#ifndef LEAT_PLAN_TOML_H
#define LEAT_PLAN_TOML_H

#include "plan/doc.h"

/* `name` is what errors call the text. The caller frees with leat_plan_doc_free. */
leat_status leat_plan_toml_parse(const char *name, const char *text, size_t n, struct leat_plan_doc **out,
                                 struct leat_error *err);

#endif
