/* Steps of one rank, made from the records of its training thread. Pure: records in, steps out.
 *
 * A step goes from the beginning of the wait for a batch to the beginning of the next one, if there was a backward pass
 * between them: passes without one are validation. The first step of an epoch begins with the loader's start. Batches
 * that are taken one after the other before a backward pass (of two loaders, or of one whose gradients are accumulated)
 * are of one step. Without a loader it goes from one optimizer step's end to the next (of one backward pass, where no
 * optimizer is seen), and so it does where a script has taken a batch and trains on it over and over. */
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
    uint32_t taken;   /* of all loaders, and which ones: a bit each, by its number modulo LEAT_STEP_LOADERS */
    uint32_t loaders;
    uint8_t mode; /* with LEAT_LANE_WARMUP */
    bool first;   /* of an epoch: its wait holds the end of the last one and the loader's start */
    bool empty;   /* no batch was ready when it was asked for */
    bool saved;   /* weights were written or taken in it, which takes longer in a differential block */
};

#define LEAT_STEP_LOADERS 32
#define LEAT_STEP_NESTED  64
#define LEAT_STEP_HELD    64 /* optimizer steps on one batch after which the script is one that takes no batches */

struct leat_stepper {
    bool open;
    bool trained;
    bool device;  /* the GPU's clock counts, and the host's no longer */
    bool opened;  /* an epoch: its first batch comes next */
    bool loaders; /* one was seen: optimizer steps are no borders */
    bool past;    /* the step began with the loader's end: what reads ahead trains its last batch after it */
    bool watched; /* the step's wait was one without gradients */
    bool optims;  /* an optimizer was seen */
    bool passed;  /* a backward pass since the last border of a step without a batch */
    bool bound;   /* a step from batch to batch was seen: those without a batch are of no interest */
    bool alone;   /* steps without a batch are the script's own; they are held until this is known */
    size_t free;  /* steps before any loader was seen */
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
    struct leat_step mark; /* what `step` held at the last border without a batch */
    struct leat_step held[LEAT_STEP_HELD];
    size_t held_count;
    size_t held_given;
};

uint64_t leat_step_ns(const struct leat_step *step);

/* True when this record completes a step. A step after which the mode changes holds the change, and is left out. */
bool leat_stepper_take(struct leat_stepper *s, const struct leat_lane_record *r, struct leat_step *out);

/* The next one of the steps without a batch, in their order, once it is known that they are the script's own: to be
 * called until it is false, after each of the other two. */
bool leat_stepper_held(struct leat_stepper *s, struct leat_step *out);

/* True when the training has ended with a step that no wait follows. */
bool leat_stepper_end(struct leat_stepper *s, struct leat_step *out);

#endif
