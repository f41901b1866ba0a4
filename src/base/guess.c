#include "base/guess.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t leat_edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LEAT_EDIT_MAX + 1]; /* of the last letters of a: this one, the one before, and the one before that */
    if (n > LEAT_EDIT_MAX || m > LEAT_EDIT_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3];
        const size_t *earlier = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            if (i == 0) {
                row[j] = j;
                continue;
            }
            row[j] = least(least(before[j], row[j - 1]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], earlier[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

struct leat_guess leat_guess_of_bytes(const char *said, size_t n)
{
    return (struct leat_guess){.said = said, .n = n, .distance = n >= 8 ? 4 : n >= 5 ? 3 : n >= 3 ? 2 : 0};
}

struct leat_guess leat_guess_of(const char *said)
{
    return leat_guess_of_bytes(said, strlen(said));
}

void leat_guess_try(struct leat_guess *g, const char *word)
{
    size_t m = strlen(word);
    size_t d = leat_edit_distance(g->said, g->n, word, m);
    if (d >= g->distance || d >= m) /* the latter: not one letter of it was right */
        return;
    g->distance = d;
    g->word = word;
}

const char *leat_guess_text(const struct leat_guess *g, char out[LEAT_GUESS_TEXT])
{
    out[0] = '\0';
    if (g->word)
        snprintf(out, LEAT_GUESS_TEXT, ": did you mean '%.*s'?", LEAT_EDIT_MAX, g->word);
    return out;
}
