/* Membership in a job through etcd: this machine is in it for as long as it keeps a lease, and is told who else is.
 *
 * There is one rule: look what etcd has, and where it is not what it should be, change it if nobody was faster, and
 * look again. That serves a first entry, a lease that ran out, an etcd that has lost its data, and a record that is to
 * say something else. A watch says when to look. While etcd does not answer, what was seen last stays true.
 *
 * Loop thread only. */
#ifndef LEAT_JOB_ETCD_H
#define LEAT_JOB_ETCD_H

#include "job/etcd_words.h"
#include "net/loop.h"

#define LEAT_ETCD_ENDPOINTS 16u

struct leat_etcd;

struct leat_etcd_opts {
    struct leat_loop *loop;
    const char *endpoints; /* "host:2379,host:2379" */
    bool tls;
    const char *prefix;                            /* of all keys, as "/leat/imagenet" */
    const char *job;                               /* what the membership is called */
    const char *name, *password;                   /* of a user; NULL: etcd asks for none */
    const char *ca, *cert, *key;                   /* files in PEM; NULL: the system's, none, none */
    const char *self;                              /* where this machine serves */
    void (*changed)(void *user);                   /* leat_etcd_seen() has something new */
    void (*said)(void *user, const char *problem); /* "": it is over */
    void *user;
};

leat_status leat_etcd_open(const struct leat_etcd_opts *opts, struct leat_etcd **out, struct leat_error *err);

/* Gives the lease back, so that the others know at once, and goes away by itself when that has been said: nothing is
 * called any more but `gone` (NULL is allowed). At once: without a word. NULL is allowed. */
void leat_etcd_close(struct leat_etcd *e, bool at_once, void (*gone)(void *user), void *user);

/* What this machine reads: at most LEAT_ETCD_SETS, in ascending order. */
void leat_etcd_tell(struct leat_etcd *e, const uint64_t *sets, uint32_t n);

/* What was seen last with this machine in it; NULL: it was never in. Stays until `changed` is called again. */
const struct leat_etcd_look *leat_etcd_seen(const struct leat_etcd *e);

#endif
