/* Steps of one rank, made from the records of its training thread. Pure: records in, steps out.
 *
 * A step goes from the beginning of the wait for a batch to the beginning of the next one, if there was a backward pass
 * between them: passes without one are validation. The first step of an epoch begins with the loader's start. Batches
 * that are taken one after the other before a backward pass (of two loaders, or of one whose gradients are accumulated)
 * are of one step. Without a loader it goes from one optimizer step's end to the next. */
#ifndef LEAT_PROFILE_STEP_H
#define LEAT_PROFILE_STEP_H

#include "profile/lane.h"

/* In the order in which a step goes through them. */
enum leat_step_stage {
    LEAT_STEP_WAIT,
    LEAT_STEP_COPY,
    LEAT_STEP_FORWARD,
    LEAT_STEP_BACKWARD,
    LEAT_STEP_COMM,
    LEAT_STEP_OPTIM,
    LEAT_STEP_OTHER,
    LEAT_STEP_STAGES
};

struct leat_step {
    uint64_t start_ns;
    uint64_t ns[LEAT_STEP_STAGES]; /* they add up to the step */
    uint64_t samples;
    uint64_t bytes;
    uint64_t copied_bytes;
    uint32_t loader;  /* 0: none was seen */
    uint32_t batches; /* of that loader */
    uint8_t mode;     /* with LEAT_LANE_WARMUP */
    bool first;       /* of an epoch: its wait holds the end of the last one and the loader's start */
    bool empty;       /* no batch was ready when it was asked for */
};

#define LEAT_STEP_NESTED 64

struct leat_stepper {
    bool open;
    bool trained;
    bool device;  /* the GPU's clock counts, and the host's no longer */
    bool opened;  /* an epoch: its first batch comes next */
    bool loaders; /* one was seen: optimizer steps are no borders */
    bool past;    /* the step began with the loader's end: what reads ahead trains its last batch after it */
    bool watched; /* the step's wait was one without gradients */
    struct leat_step step;
    uint64_t start_ns;
    uint64_t ended_ns; /* what the loader took to end the last epoch */
    uint64_t tail_ns;  /* where the last backward pass or optimizer step ended */
    uint64_t after_ns; /* copies and collectives since then */
    struct {
        uint64_t start_ns;
        uint64_t ns;
    } nested[LEAT_STEP_NESTED]; /* collectives that a backward pass or an optimizer step may turn out to hold */
    size_t nested_count;
};

uint64_t leat_step_ns(const struct leat_step *step);

/* True when this record completes a step. A step after which the mode changes holds the change, and is left out. */
bool leat_stepper_take(struct leat_stepper *s, const struct leat_lane_record *r, struct leat_step *out);

/* True when the training has ended with a step that no wait follows. */
bool leat_stepper_end(struct leat_stepper *s, struct leat_step *out);

#endif
