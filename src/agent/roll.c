#include "agent/roll.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* The last part of an address, without a version and without a slash at its end. */
static void end_of(const char *address, char *out, size_t n)
{
    size_t len = strcspn(address, "?");
    while (len > 1 && address[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && address[from - 1] != '/')
        from--;
    snprintf(out, n, "%.*s", (int)(len - from), address + from);
}

static struct leat_roll_entry *enter(struct leat_roll *roll, const char *name, const char *dataset)
{
    uint32_t number = ++roll->last;
    struct leat_roll_entry *e = &roll->entries[number % LEAT_ROLL_MAX];
    *e = (struct leat_roll_entry){.number = number};
    if (name)
        snprintf(e->name, sizeof e->name, "%s", name);
    else
        end_of(dataset, e->name, sizeof e->name);
    leat_one_line(e->name); /* addresses are bytes; JSON and Prometheus want UTF-8 */
    snprintf(e->dataset, sizeof e->dataset, "%.*s", (int)strcspn(dataset, "?"), dataset); /* without a version */
    leat_one_line(e->dataset);
    return e;
}

struct leat_roll_entry leat_roll_loader(struct leat_roll *roll, int pid, uint64_t born_ns, uint32_t rank,
                                        uint32_t world, const char *name, const char *dataset)
{
    for (uint32_t i = 0; born_ns && i < LEAT_ROLL_MAX; i++) {
        struct leat_roll_entry *e = &roll->entries[i];
        if (e->number && e->pid == pid && e->born_ns == born_ns) {
            e->rank = rank;
            e->world = world;
            return *e;
        }
    }
    struct leat_roll_entry *e = enter(roll, name, dataset);
    e->pid = pid;
    e->born_ns = born_ns;
    e->rank = rank;
    e->world = world;
    return *e;
}

struct leat_roll_entry leat_roll_dataset(struct leat_roll *roll, const char *dataset)
{
    return *enter(roll, NULL, dataset);
}

const struct leat_roll_entry *leat_roll_find(const struct leat_roll *roll, uint32_t number)
{
    const struct leat_roll_entry *e = &roll->entries[number % LEAT_ROLL_MAX];
    return number && e->number == number ? e : NULL;
}
