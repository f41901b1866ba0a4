#include "job/members.h"

#include "fuzz.h"

/* The input is a membership as ranks hand it on: what can be read can be written, read again and placed. */
FUZZ(members)
{
    struct leat_members *m;
    struct leat_members *again;
    struct leat_error err;
    uint32_t table[64];
    char *text;
    if (leat_members_read((const char *)data, size, &m, &err) != LEAT_OK)
        return;
    PROMISE(m->now.n && m->now.n <= LEAT_MEMBERS_NODES && m->before_n <= LEAT_MEMBERS_BEFORE);
    if (leat_members_write(m, &text, &err) == LEAT_OK) {
        PROMISE(leat_members_read(text, strlen(text), &again, &err) == LEAT_OK);
        PROMISE(leat_members_token_is(again, m->token));
        leat_members_free(again);
        free(text);
    }
    if (leat_members_place(m, NULL, 64, table, &err) == LEAT_OK) {
        for (unsigned i = 0; i < 64; i++)
            PROMISE(table[i] < m->now.n);
    }
    leat_members_free(m);
}
