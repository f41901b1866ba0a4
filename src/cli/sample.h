/* A sample as a person looks at it. */
#ifndef LEAT_CLI_SAMPLE_H
#define LEAT_CLI_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/chunk.h"

/* Appends lines about sample i of a chunk: its number and key, then every field with its type and value, cut to
 * `columns` characters. */
leat_status leat_cli_describe_sample(const struct leat_chunk *c, uint32_t i, uint64_t number, size_t columns,
                                     struct leat_buf *out, struct leat_error *err);

/* The n-th number of an array, as text. `out` has room for LEAT_CLI_NUMBER bytes. */
#define LEAT_CLI_NUMBER 40
void leat_cli_number(uint32_t dtype, const uint8_t *data, size_t n, char *out);

#endif
