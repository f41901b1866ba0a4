/* Faults on purpose: which requests they befall. Pure functions of the seed and the request's number. */
#ifndef LEAT_SERVE_FAULT_H
#define LEAT_SERVE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum leat_serve_fault_kind {
    LEAT_SERVE_FAULT_NONE,
    LEAT_SERVE_FAULT_STATUS,       /* an error answer: 503, 500, … */
    LEAT_SERVE_FAULT_RESET,        /* the connection breaks, before the answer or inside its body */
    LEAT_SERVE_FAULT_TRUNCATE,     /* the body ends early */
    LEAT_SERVE_FAULT_CORRUPT,      /* one bit of the body is wrong */
    LEAT_SERVE_FAULT_STALL,        /* the body stops, and the connection stays open */
    LEAT_SERVE_FAULT_LATE,         /* the answer comes a second late */
    LEAT_SERVE_FAULT_SLOW,         /* the body comes one byte a second */
    LEAT_SERVE_FAULT_WRONG_RANGE,  /* another range than the one asked for, and said so */
    LEAT_SERVE_FAULT_LOST_RANGE,   /* 206 without Content-Range */
    LEAT_SERVE_FAULT_IGNORE_RANGE, /* 200 with the whole object in answer to a range */
    LEAT_SERVE_FAULT_ERROR200,     /* 200 with an error document as body */
    LEAT_SERVE_FAULT_EXPIRED,      /* the keys are said to be over */
    LEAT_SERVE_FAULT_REDIRECT      /* to another host */
};

#define LEAT_SERVE_FAULTS_MAX 24

struct leat_serve_fault {
    enum leat_serve_fault_kind kind;
    unsigned status; /* of FAULT_STATUS */
    double chance;
    char name[16]; /* as written: "503", "reset" */
};

struct leat_serve_faults {
    struct leat_serve_fault fault[LEAT_SERVE_FAULTS_MAX];
    size_t n;
};

/* "503=0.01,reset=0.01"; "" or NULL: none. The chances may not add up to more than 1. */
leat_status leat_serve_faults_parse(const char *text, struct leat_serve_faults *out, struct leat_error *err);

/* The fault that befalls the request with this number, or NULL. */
const struct leat_serve_fault *leat_serve_faults_draw(const struct leat_serve_faults *f, uint64_t seed,
                                                      uint64_t number);

/* A further number for that request, below n (n > 0): where a body breaks, which bit is wrong. */
uint64_t leat_serve_faults_place(uint64_t seed, uint64_t number, unsigned which, uint64_t n);

#endif
