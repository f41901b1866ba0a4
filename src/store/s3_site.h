/* Where a bucket's requests go and what they are signed for: AWS's rules for names, as arithmetic on texts.
 *
 * A bucket's name may be the name itself, an access point's ARN, or that of a directory bucket (S3 Express), which says
 * in which zone it is. */
#ifndef LEAT_STORE_S3_SITE_H
#define LEAT_STORE_S3_SITE_H

#include "base/error.h"
#include "store/store.h"

#define LEAT_S3_REGION_MAX 32
#define LEAT_S3_HOST_MAX   300

struct leat_s3_asked {
    const char *bucket;
    const char *region;   /* NULL: not known */
    const char *endpoint; /* host and port; NULL: AWS's own */
    bool fips;
    bool dual_stack;
    enum leat_store_addressing addressing;
};

struct leat_s3_site {
    char label[256]; /* what stands for the bucket, before the host or in the path */
    char host[LEAT_S3_HOST_MAX];
    char region[LEAT_S3_REGION_MAX]; /* that requests are signed for */
    const char *service;             /* … and the service */
    bool virtual_host;               /* the label stands before the host */
    bool fixed;                      /* its name says where it is: it cannot be in another region */
    bool directory;                  /* a directory bucket: keys are those of a session, ETags are no MD5s */
    bool global;                     /* a multi-region access point: signed for every region (SigV4A) */
};

leat_status leat_s3_locate(const struct leat_s3_asked *asked, struct leat_s3_site *out, struct leat_error *err);

/* Whether a host is AWS's own for S3: "s3[-fips][.dualstack].REGION.SUFFIX". Sets what it says. */
bool leat_s3_own_host(const char *host, char region[LEAT_S3_REGION_MAX], bool *fips, bool *dual_stack);

bool leat_s3_is_directory(const char *bucket); /* by its name */

const char *leat_s3_suffix(const char *region); /* of AWS's hosts there: "amazonaws.com" */

/* It becomes part of a host's name and of what is signed. */
bool leat_s3_can_be_region(const char *text);

#endif
