/* What somebody meant who wrote a name that is not there: for "did you mean". */
#ifndef LEAT_BASE_GUESS_H
#define LEAT_BASE_GUESS_H

#include <stddef.h>

struct leat_guess {
    const char *said; /* n bytes */
    size_t n;
    const char *word; /* the closest so far; NULL: none is close */
    size_t distance;
};

struct leat_guess leat_guess_of(const char *said);
struct leat_guess leat_guess_of_bytes(const char *said, size_t n);

/* One of the names there are. It is borrowed. Close is one letter wrong, two of a name from 5 letters, three from 8. */
void leat_guess_try(struct leat_guess *g, const char *word);

#define LEAT_GUESS_TEXT 100

/* ": did you mean 'WORD'?", or "" where none is close. Returns out. */
const char *leat_guess_text(const struct leat_guess *g, char out[LEAT_GUESS_TEXT]);

/* How many letters have to be put in, left out, replaced or swapped with the next one to make b (m bytes) of a (n
 * bytes). Names of more than LEAT_EDIT_MAX bytes are like no other: SIZE_MAX. */
#define LEAT_EDIT_MAX 63
size_t leat_edit_distance(const char *a, size_t n, const char *b, size_t m);

#endif
