#include "serve/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/random.h"

static const struct {
    const char *name;
    enum leat_serve_fault_kind kind;
} kinds[] = {
    {"reset", LEAT_SERVE_FAULT_RESET},
    {"truncate", LEAT_SERVE_FAULT_TRUNCATE},
    {"corrupt", LEAT_SERVE_FAULT_CORRUPT},
    {"stall", LEAT_SERVE_FAULT_STALL},
    {"late", LEAT_SERVE_FAULT_LATE},
    {"slow", LEAT_SERVE_FAULT_SLOW},
    {"wrong-range", LEAT_SERVE_FAULT_WRONG_RANGE},
    {"lost-range", LEAT_SERVE_FAULT_LOST_RANGE},
    {"ignore-range", LEAT_SERVE_FAULT_IGNORE_RANGE},
    {"error200", LEAT_SERVE_FAULT_ERROR200},
    {"expired", LEAT_SERVE_FAULT_EXPIRED},
    {"redirect", LEAT_SERVE_FAULT_REDIRECT},
};

#define KINDS                                                                                                          \
    "a status from 400 to 599, reset, truncate, corrupt, stall, late, slow, wrong-range, lost-range, ignore-range, "   \
    "error200, expired, redirect"

static bool find_kind(const char *name, struct leat_serve_fault *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            out->kind = kinds[i].kind;
            return true;
        }
    }
    uint64_t status;
    if (strlen(name) != 3 || leat_parse_u64(name, "status", &status, NULL) != LEAT_OK || status < 400 || status > 599)
        return false;
    out->kind = LEAT_SERVE_FAULT_STATUS;
    out->status = (unsigned)status;
    return true;
}

static leat_status parse_one(const char *text, size_t n, struct leat_serve_fault *out, struct leat_error *err)
{
    char copy[64];
    if (n >= sizeof copy)
        return leat_fail(err, LEAT_INVALID, "--fault: '%.40s…' is not KIND=CHANCE", text);
    memcpy(copy, text, n);
    copy[n] = '\0';
    char *equals = strchr(copy, '=');
    if (!equals)
        return leat_fail(err, LEAT_INVALID, "--fault: '%s' is not KIND=CHANCE, as in 503=0.01", copy);
    *equals = '\0';
    if (!find_kind(copy, out))
        return leat_fail(err, LEAT_INVALID, "--fault: '%s' is not one of %s", copy, KINDS);
    leat_status rc = leat_parse_double(equals + 1, "--fault", &out->chance, err);
    if (rc == LEAT_OK && (out->chance < 0 || out->chance > 1))
        rc = leat_fail(err, LEAT_INVALID, "--fault: %s=%s is not a chance from 0 to 1", copy, equals + 1);
    snprintf(out->name, sizeof out->name, "%.15s", copy);
    return rc;
}

leat_status leat_serve_faults_parse(const char *text, struct leat_serve_faults *out, struct leat_error *err)
{
    struct leat_serve_faults f = {0};
    double sum = 0;
    for (const char *p = text ? text : ""; *p;) {
        size_t n = strcspn(p, ",");
        if (f.n == LEAT_SERVE_FAULTS_MAX)
            return leat_fail(err, LEAT_INVALID, "--fault: more than %d faults", LEAT_SERVE_FAULTS_MAX);
        leat_status rc = parse_one(p, n, &f.fault[f.n], err);
        if (rc != LEAT_OK)
            return rc;
        sum += f.fault[f.n++].chance;
        p += n;
        if (*p == ',' && !*++p)
            return leat_fail(err, LEAT_INVALID, "--fault: '%s' ends with a comma", text);
    }
    if (sum > 1 + 1e-9)
        return leat_fail(err, LEAT_INVALID, "--fault: the chances add up to %g, which is more than 1", sum);
    *out = f;
    return LEAT_OK;
}

const struct leat_serve_fault *leat_serve_faults_draw(const struct leat_serve_faults *f, uint64_t seed, uint64_t number)
{
    if (!f->n)
        return NULL;
    /* One draw for all kinds, so that each has its chance and no request has two. */
    struct leat_rng r = leat_rng(leat_key("serve fault", seed, 0, NULL, 0), number);
    double u = leat_rng_unit(&r);
    for (size_t i = 0; i < f->n; i++) {
        if (u < f->fault[i].chance)
            return &f->fault[i];
        u -= f->fault[i].chance;
    }
    return NULL;
}

uint64_t leat_serve_faults_place(uint64_t seed, uint64_t number, unsigned which, uint64_t n)
{
    struct leat_rng r = leat_rng(leat_key("serve place", seed, which, NULL, 0), number);
    return leat_rng_below(&r, n);
}
