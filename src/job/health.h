/* What is known of a machine that chunks come from: whether it is worth asking. Arithmetic only.
 *
 * One that fails is left alone for a while, longer each time; one whose bytes were wrong for long. After two failures
 * in a row it counts as lost, and others take over what it owns. */
#ifndef LEAT_JOB_HEALTH_H
#define LEAT_JOB_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

struct leat_health {
    uint32_t failures; /* in a row */
    uint64_t rest_ns;  /* until when it is left alone */
    bool lost;
    bool lied;
};

bool leat_health_good(const struct leat_health *h, uint64_t now_ns); /* ask it */
bool leat_health_due(const struct leat_health *h, uint64_t now_ns);  /* lost, and worth another look */
/* What came of asking it. True: whether it is lost has changed. */
bool leat_health_well(struct leat_health *h);
bool leat_health_ill(struct leat_health *h, bool lied, uint64_t now_ns);

#endif
