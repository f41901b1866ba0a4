#include "store/s3_site.h"

#include <stdio.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* The parts of AWS that share no accounts, by how their regions begin: name and suffix of hosts. The last is the rest.
 */
static const struct partition {
    const char *begins;
    const char *name;
    const char *suffix;
    bool no_fips;
} partitions[] = {
    {"cn-", "aws-cn", "amazonaws.com.cn", true},       {"us-gov-", "aws-us-gov", "amazonaws.com", false},
    {"us-isob-", "aws-iso-b", "sc2s.sgov.gov", false}, {"us-isof-", "aws-iso-f", "csp.hci.ic.gov", false},
    {"us-iso-", "aws-iso", "c2s.ic.gov", false},       {"eu-isoe-", "aws-iso-e", "cloud.adc-e.uk", false},
    {"eusc-", "aws-eusc", "amazonaws.eu", false},      {"", "aws", "amazonaws.com", false},
};

static const struct partition *partition_of(const char *region)
{
    const struct partition *p = partitions;
    while (strncmp(region, p->begins, strlen(p->begins)) != 0)
        p++;
    return p;
}

const char *leat_s3_suffix(const char *region)
{
    return partition_of(region)->suffix;
}

bool leat_s3_can_be_region(const char *text)
{
    size_t n = strspn(text, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-");
    return n && !text[n] && n < LEAT_S3_REGION_MAX;
}

/* Names that can be the first label of a host with a certificate for one label. */
static bool fits_host(const char *name)
{
    size_t n = strlen(name);
    return n >= 3 && n <= 63 && strspn(name, LOWER DIGITS "-") == n && name[0] != '-' && name[n - 1] != '-';
}

static bool skip(const char **text, const char *what)
{
    size_t n = strlen(what);
    if (strncmp(*text, what, n) != 0)
        return false;
    *text += n;
    return true;
}

bool leat_s3_own_host(const char *host, char region[LEAT_S3_REGION_MAX], bool *fips, bool *dual_stack)
{
    char name[LEAT_S3_REGION_MAX];
    if (!skip(&host, "s3"))
        return false;
    bool special = skip(&host, "-fips");
    bool dual = skip(&host, ".dualstack");
    size_t n = *host == '.' ? strcspn(host + 1, ".") : 0;
    if (!n || n >= sizeof name)
        return false;
    memcpy(name, host + 1, n);
    name[n] = '\0';
    host += 1 + n;
    if (!leat_s3_can_be_region(name) || *host != '.' || strcmp(host + 1, partition_of(name)->suffix) != 0)
        return false;
    memcpy(region, name, sizeof name);
    *fips = special;
    *dual_stack = dual;
    return true;
}

/* One part of an ARN up to the next ':'; false when it is too long or there is none. */
static bool take_part(const char **text, char *out, size_t size)
{
    size_t n = strcspn(*text, ":");
    if ((*text)[n] != ':' || n >= size)
        return false;
    memcpy(out, *text, n);
    out[n] = '\0';
    *text += n + 1;
    return true;
}

struct arn {
    char partition[20];
    char service[20];
    char region[LEAT_S3_REGION_MAX];
    char account[16];
    char name[64]; /* of the access point */
};

static leat_status parse_arn(const char *text, struct arn *out, struct leat_error *err)
{
    const char *at = text;
    if (!skip(&at, "arn:") || !take_part(&at, out->partition, sizeof out->partition) ||
        !take_part(&at, out->service, sizeof out->service) || !take_part(&at, out->region, sizeof out->region) ||
        !take_part(&at, out->account, sizeof out->account))
        return leat_fail(err, LEAT_INVALID, "'%s' is not arn:PARTITION:s3:REGION:ACCOUNT:accesspoint/NAME", text);
    if (strcmp(out->service, "s3") != 0)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "'%s' is of %s, which Leat does not speak; it knows access points of s3", text, out->service);
    bool point = skip(&at, "accesspoint/") || skip(&at, "accesspoint:");
    size_t n = strspn(at, LOWER DIGITS "-.");
    if (!point || strlen(out->account) != 12 || strspn(out->account, DIGITS) != 12 || n < 3 || n >= sizeof out->name ||
        at[n])
        return leat_fail(err, LEAT_INVALID, "'%s' is not arn:PARTITION:s3:REGION:ACCOUNT:accesspoint/NAME", text);
    memcpy(out->name, at, n + 1);
    return LEAT_OK;
}

static leat_status refuse_special(const struct leat_s3_asked *asked, const char *what, struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "%s has no %s endpoint", what, asked->fips ? "FIPS" : "dual-stack");
}

/* "ALIAS.mrap", which is in no region. */
static leat_status locate_global(const struct leat_s3_asked *asked, const struct arn *arn, struct leat_s3_site *out,
                                 struct leat_error *err)
{
    if (asked->endpoint)
        return leat_fail(err, LEAT_INVALID, "'%s' is a multi-region access point: it has no other endpoint than AWS's",
                         asked->bucket);
    if (asked->fips || asked->dual_stack)
        return refuse_special(asked, "a multi-region access point", err);
    if (strcmp(arn->partition, "aws") != 0)
        return leat_fail(err, LEAT_INVALID, "'%s': multi-region access points are in partition aws only",
                         asked->bucket);
    snprintf(out->label, sizeof out->label, "%s", arn->name);
    snprintf(out->host, sizeof out->host, "accesspoint.s3-global.amazonaws.com");
    snprintf(out->region, sizeof out->region, "*");
    out->virtual_host = out->fixed = out->global = true;
    return LEAT_OK;
}

static leat_status locate_point(const struct leat_s3_asked *asked, struct leat_s3_site *out, struct leat_error *err)
{
    struct arn arn = {0};
    leat_status rc = parse_arn(asked->bucket, &arn, err);
    if (rc != LEAT_OK)
        return rc;
    if (asked->region && strcmp(partition_of(asked->region)->name, arn.partition) != 0)
        return leat_fail(err, LEAT_INVALID, "'%s' is in partition %s, and region '%s' in %s", asked->bucket,
                         arn.partition, asked->region, partition_of(asked->region)->name);
    if (!arn.region[0])
        return locate_global(asked, &arn, out, err);
    const struct partition *p = partition_of(arn.region);
    if (!leat_s3_can_be_region(arn.region) || strchr(arn.name, '.') || strcmp(p->name, arn.partition) != 0)
        return leat_fail(err, LEAT_INVALID, "'%s' is not the name of an access point of region '%s'", asked->bucket,
                         arn.region);
    if (asked->fips && p->no_fips)
        return refuse_special(asked, p->name, err);
    snprintf(out->label, sizeof out->label, "%s-%s", arn.name, arn.account);
    if (asked->endpoint)
        snprintf(out->host, sizeof out->host, "%s", asked->endpoint);
    else
        snprintf(out->host, sizeof out->host, "s3-accesspoint%s%s.%s.%s", asked->fips ? "-fips" : "",
                 asked->dual_stack ? ".dualstack" : "", arn.region, p->suffix);
    snprintf(out->region, sizeof out->region, "%s", arn.region);
    out->virtual_host = asked->addressing != LEAT_ADDRESSING_PATH;
    out->fixed = true;
    return LEAT_OK;
}

/* The zone in "NAME--ZONE--x-s3" (or the --xa-s3 of its access points); false: an ordinary bucket. */
static bool zone_of(const char *bucket, char *out, size_t size)
{
    size_t n = strlen(bucket);
    const char *end = n > 6 && strcmp(bucket + n - 6, "--x-s3") == 0    ? bucket + n - 6
                      : n > 7 && strcmp(bucket + n - 7, "--xa-s3") == 0 ? bucket + n - 7
                                                                        : NULL;
    const char *zone = end;
    while (zone && zone > bucket && !(zone - bucket >= 2 && zone[-1] == '-' && zone[-2] == '-'))
        zone--;
    if (!end || zone == end || zone - bucket < 3 || (size_t)(end - zone) >= size)
        return false;
    memcpy(out, zone, (size_t)(end - zone));
    out[end - zone] = '\0';
    return true;
}

bool leat_s3_is_directory(const char *bucket)
{
    char zone[40];
    return zone_of(bucket, zone, sizeof zone);
}

static leat_status locate_directory(const struct leat_s3_asked *asked, const char *zone, struct leat_s3_site *out,
                                    struct leat_error *err)
{
    const char *region = asked->region ? asked->region : "us-east-1";
    const struct partition *p = partition_of(region);
    if (!asked->region && !asked->endpoint)
        return leat_fail(err, LEAT_INVALID,
                         "'%s' is a directory bucket, whose address needs its region: set AWS_REGION or --region",
                         asked->bucket);
    if (asked->fips && p->no_fips)
        return refuse_special(asked, p->name, err);
    snprintf(out->label, sizeof out->label, "%s", asked->bucket);
    if (asked->endpoint)
        snprintf(out->host, sizeof out->host, "%s", asked->endpoint);
    else
        snprintf(out->host, sizeof out->host, "s3express-%s%s%s.%s.%s", asked->fips ? "fips-" : "", zone,
                 asked->dual_stack ? ".dualstack" : "", region, p->suffix);
    snprintf(out->region, sizeof out->region, "%s", region);
    out->service = "s3express";
    out->virtual_host = asked->addressing == LEAT_ADDRESSING_VIRTUAL || !asked->endpoint;
    out->fixed = out->directory = true;
    return LEAT_OK;
}

leat_status leat_s3_locate(const struct leat_s3_asked *asked, struct leat_s3_site *out, struct leat_error *err)
{
    struct leat_s3_site site = {.service = "s3"};
    char zone[40];
    leat_status rc = LEAT_OK;
    const char *region = asked->region ? asked->region : "us-east-1";
    if (!leat_s3_can_be_region(region))
        return leat_fail(err, LEAT_INVALID, "'%.60s' is not the name of a region", region);
    const struct partition *p = partition_of(region);
    if (strncmp(asked->bucket, "arn:", 4) == 0) {
        rc = locate_point(asked, &site, err);
    } else if (zone_of(asked->bucket, zone, sizeof zone)) {
        rc = locate_directory(asked, zone, &site, err);
    } else if (asked->fips && p->no_fips) {
        rc = refuse_special(asked, p->name, err);
    } else {
        snprintf(site.label, sizeof site.label, "%s", asked->bucket);
        if (asked->endpoint)
            snprintf(site.host, sizeof site.host, "%s", asked->endpoint);
        else
            snprintf(site.host, sizeof site.host, "s3%s%s.%s.%s", asked->fips ? "-fips" : "",
                     asked->dual_stack ? ".dualstack" : "", region, p->suffix);
        snprintf(site.region, sizeof site.region, "%s", region);
        site.virtual_host = asked->addressing == LEAT_ADDRESSING_AUTO ? !asked->endpoint && fits_host(asked->bucket)
                                                                      : asked->addressing == LEAT_ADDRESSING_VIRTUAL;
    }
    if (rc == LEAT_OK)
        *out = site;
    return rc;
}
