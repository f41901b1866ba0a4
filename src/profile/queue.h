/* How fast workers make batches that share a machine: a closed network of queues, by mean value analysis. Each worker
 * waits (for storage, for locks), computes on one of some cores and reads over one line, again and again; cores and the
 * line divide themselves evenly among those that want them at the same time, which makes the answer exact for any
 * distribution of the work. Pure. */
#ifndef LEAT_PROFILE_QUEUE_H
#define LEAT_PROFILE_QUEUE_H

struct leat_queue {
    unsigned workers; /* at least 1 */
    double alone_s;   /* of one batch: what takes its time, however many there are */
    double core_s;    /* … on a core */
    double line_s;    /* … on the line, if it were alone there */
    unsigned cores;   /* at least 1 */
};

struct leat_queue_answer {
    double batches_per_s; /* of all workers together; infinite for batches that take no time */
    double core_s;        /* of a batch: on a core, and waiting for one */
    double line_s;
};

struct leat_queue_answer leat_queue_ask(const struct leat_queue *q);

#endif
