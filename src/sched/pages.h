/* An array that grows without being moved, in pages of a fixed size: adding one more member costs the same whether
 * there are ten of them or ten million. What is not written yet is zero. */
#ifndef LEAT_SCHED_PAGES_H
#define LEAT_SCHED_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define LEAT_SCHED_PAGE 32768u /* bytes; members must not cross the end of a page */

struct leat_sched_pages {
    char **list; /* NULL: a page that nobody has needed yet */
    size_t n;
};

/* Makes the page of this byte, and no other one. False: no memory. */
bool leat_sched_pages_make(struct leat_sched_pages *p, size_t byte);
void leat_sched_pages_free(struct leat_sched_pages *p);

static inline bool leat_sched_pages_has(const struct leat_sched_pages *p, size_t byte)
{
    return byte / LEAT_SCHED_PAGE < p->n && p->list[byte / LEAT_SCHED_PAGE];
}

/* Its page must have been made. */
static inline void *leat_sched_pages_at(const struct leat_sched_pages *p, size_t byte)
{
    return p->list[byte / LEAT_SCHED_PAGE] + byte % LEAT_SCHED_PAGE;
}

#endif
