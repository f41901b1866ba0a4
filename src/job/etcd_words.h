/* What is said to etcd and what it answers, by its gateway for JSON (/v3/…), and how a membership is kept in it:
 *
 *   PREFIX/members         the machines and their secrets, as leat_members_write() has them
 *   PREFIX/alive/ADDRESS   a machine that is there, for as long as its lease: {"id": ID, "sets": ["0123456789abcdef",
 * …]}
 *
 * A set is a dataset, or a mixture of some, that a loader reads: the first 8 bytes of its id. Texts are the caller's to
 * free(); NULL: no memory. */
#ifndef LEAT_JOB_ETCD_WORDS_H
#define LEAT_JOB_ETCD_WORDS_H

#include "job/members.h"

#define LEAT_ETCD_ID   17u  /* of an agent: 8 random bytes in hexadecimal digits */
#define LEAT_ETCD_SETS 256u /* of a machine: 5 KiB of text */

struct leat_etcd_record {
    char address[LEAT_MEMBERS_ADDRESS];
    char id[LEAT_ETCD_ID];
    uint64_t *sets; /* in ascending order */
    uint32_t sets_n;
};

struct leat_etcd_look {
    int64_t revision;                 /* of etcd when it was asked */
    int64_t members_at;               /* revision of the members; 0: there are none */
    struct leat_members *members;     /* NULL: there are none */
    struct leat_etcd_record *records; /* by address; those that cannot be read have no id, and read nothing */
    uint32_t n;
};

char *leat_etcd_ask_look(const char *prefix);
leat_status leat_etcd_read_look(const char *text, size_t n, const char *prefix, struct leat_etcd_look *out,
                                struct leat_error *err);
void leat_etcd_look_free(struct leat_etcd_look *look);
const struct leat_etcd_record *leat_etcd_find(const struct leat_etcd_look *look, const char *address); /* NULL: none */

/* To be there, if the members are still those of revision `at` (0: there are none). `members`: what they are to be;
 * NULL: they stay. `alone`: only while nobody is alive. */
char *leat_etcd_ask_enter(const char *prefix, int64_t at, const char *members, bool alone,
                          const struct leat_etcd_record *self, int64_t lease);
leat_status leat_etcd_read_entered(const char *text, size_t n, bool *entered, struct leat_error *err);

char *leat_etcd_ask_watch(const char *prefix, int64_t from);
bool leat_etcd_watch_is_over(const char *line, size_t n); /* etcd has ended it, and its connection stays open */
char *leat_etcd_ask_grant(unsigned seconds);
char *leat_etcd_ask_lease(int64_t id); /* to keep it, or to give it back */
leat_status leat_etcd_read_grant(const char *text, size_t n, int64_t *lease, struct leat_error *err);
leat_status leat_etcd_read_kept(const char *text, size_t n, bool *there, struct leat_error *err);
char *leat_etcd_ask_token(const char *user, const char *password);
leat_status leat_etcd_read_token(const char *text, size_t n, char **token, struct leat_error *err);
void leat_etcd_read_problem(const char *text, size_t n, char *out, size_t size); /* of an answer that is none */

#endif
