#include "sched/pages.h"

#include <stdlib.h>
#include <string.h>

#define LIST_MIN 16u

/* The list is small beside the pages: 20 KB for ten million pointers. */
static bool list_until(struct leat_sched_pages *p, size_t page)
{
    size_t n = p->n ? p->n : LIST_MIN;
    if (page < p->n)
        return true;
    while (n <= page)
        n *= 2;
    char **list = realloc(p->list, n * sizeof *list);
    if (!list)
        return false;
    memset(list + p->n, 0, (n - p->n) * sizeof *list);
    p->list = list;
    p->n = n;
    return true;
}

bool leat_sched_pages_make(struct leat_sched_pages *p, size_t byte)
{
    size_t page = byte / LEAT_SCHED_PAGE;
    if (!list_until(p, page))
        return false;
    if (!p->list[page])
        p->list[page] = calloc(1, LEAT_SCHED_PAGE);
    return p->list[page] != NULL;
}

void leat_sched_pages_free(struct leat_sched_pages *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i]);
    free(p->list);
    *p = (struct leat_sched_pages){0};
}
