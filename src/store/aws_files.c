#include "store/aws_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ini.h"

struct line {
    bool config; /* ~/.aws/config writes [profile NAME], ~/.aws/credentials [NAME] */
    char *section;
    char *key;
    char *value;
};

struct leat_aws_files {
    struct line *lines;
    size_t n;
    size_t cap;
    bool config; /* while reading */
};

const char *leat_aws_variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static leat_status take_line(const char *section, const char *key, const char *value, unsigned number, void *user,
                             struct leat_error *err)
{
    struct leat_aws_files *f = user;
    (void)number;
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 32;
        struct line *more = realloc(f->lines, cap * sizeof *more);
        if (!more)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
        f->lines = more;
        f->cap = cap;
    }
    struct line *l = &f->lines[f->n++];
    *l = (struct line){f->config, strdup(section), strdup(key), strdup(value)};
    return l->section && l->key && l->value ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
}

bool leat_aws_path(const char *variable, const char *name, char *out, size_t n)
{
    const char *path = variable ? leat_aws_variable(variable) : NULL;
    const char *home = leat_aws_variable("HOME");
    int len = path ? snprintf(out, n, "%s", path) : home ? snprintf(out, n, "%s/.aws/%s", home, name) : -1;
    return len > 0 && (size_t)len < n;
}

static leat_status read_file(struct leat_aws_files *f, const char *variable, const char *name, struct leat_error *err)
{
    char path[4096];
    f->config = strcmp(name, "config") == 0;
    if (!leat_aws_path(variable, name, path, sizeof path))
        return LEAT_OK;
    leat_status rc = leat_ini_read(path, take_line, f, err);
    return rc == LEAT_NOT_FOUND ? LEAT_OK : rc;
}

leat_status leat_aws_files_read(struct leat_aws_files **out, struct leat_error *err)
{
    struct leat_aws_files *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
    leat_status rc = read_file(f, "AWS_SHARED_CREDENTIALS_FILE", "credentials", err);
    if (rc == LEAT_OK)
        rc = read_file(f, "AWS_CONFIG_FILE", "config", err);
    if (rc != LEAT_OK) {
        leat_aws_files_free(f);
        return rc;
    }
    *out = f;
    return LEAT_OK;
}

void leat_aws_files_free(struct leat_aws_files *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n; i++) {
        if (f->lines[i].value)
            explicit_bzero(f->lines[i].value, strlen(f->lines[i].value));
        free(f->lines[i].section);
        free(f->lines[i].key);
        free(f->lines[i].value);
    }
    free(f->lines);
    free(f);
}

/* Whether a section is "kind name", however much white space is between them. */
static bool is_section(const char *section, const char *kind, const char *name)
{
    size_t n = strlen(kind);
    if (strncmp(section, kind, n) != 0 || (section[n] != ' ' && section[n] != '\t'))
        return false;
    return strcmp(section + n + strspn(section + n, " \t"), name) == 0;
}

static bool names_profile(const struct line *l, const char *profile)
{
    if (!l->config)
        return strcmp(l->section, profile) == 0;
    return is_section(l->section, "profile", profile) ||
           (strcmp(profile, "default") == 0 && strcmp(l->section, profile) == 0);
}

bool leat_aws_files_has(const struct leat_aws_files *f, const char *profile)
{
    for (size_t i = 0; i < f->n; i++) {
        if (names_profile(&f->lines[i], profile))
            return true;
    }
    return false;
}

const char *leat_aws_files_of(const struct leat_aws_files *f, bool config, const char *profile, const char *key)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct line *l = &f->lines[i];
        if (l->config == config && *l->value && strcmp(l->key, key) == 0 && names_profile(l, profile))
            return l->value;
    }
    return NULL;
}

const char *leat_aws_files_get(const struct leat_aws_files *f, const char *profile, const char *key)
{
    const char *value = leat_aws_files_of(f, false, profile, key);
    return value ? value : leat_aws_files_of(f, true, profile, key);
}

const char *leat_aws_files_section(const struct leat_aws_files *f, const char *kind, const char *name, const char *key)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct line *l = &f->lines[i];
        if (l->config && *l->value && strcmp(l->key, key) == 0 && is_section(l->section, kind, name))
            return l->value;
    }
    return NULL;
}

void leat_aws_files_text(const struct leat_aws_files *f, struct leat_buf *out)
{
    for (size_t i = 0; i < f->n; i++)
        leat_buf_printf(out, "%d[%s]%s=%s|", f->lines[i].config, f->lines[i].section, f->lines[i].key,
                        f->lines[i].value);
}
