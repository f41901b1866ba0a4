#include "base/ini.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX   ((size_t)1 << 20)
#define LINE_BYTES 4096
#define NAME_BYTES 256

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *s)
{
    while (blank(*s))
        s++;
    size_t n = strlen(s);
    while (n && blank(s[n - 1]))
        s[--n] = '\0';
    return s;
}

static void cut_comment(char *s)
{
    for (char *p = s; *p; p++) {
        if ((*p == '#' || *p == ';') && (p == s || blank(p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

bool leat_ini_names_store(const char *section)
{
    return strncmp(section, "store", 5) == 0 && (blank(section[5]) || section[5] == '"');
}

struct ini {
    const char *name;
    leat_ini_line *each;
    void *user;
    unsigned line;
    char section[NAME_BYTES];
    char parent[NAME_BYTES]; /* key with an empty value: indented lines belong to it */
};

static leat_status take_section(struct ini *ini, char *s, struct leat_error *err)
{
    char *end = strchr(s, ']');
    if (!end || *trim(end + 1))
        return leat_fail(err, LEAT_INVALID, "%s line %u: a section is written [name]", ini->name, ini->line);
    *end = '\0';
    s = trim(s + 1);
    if (!*s)
        return leat_fail(err, LEAT_INVALID, "%s line %u: a section without a name", ini->name, ini->line);
    if (strlen(s) >= sizeof ini->section)
        return leat_fail(err, LEAT_INVALID, "%s line %u: section name too long", ini->name, ini->line);
    memcpy(ini->section, s, strlen(s) + 1);
    ini->parent[0] = '\0';
    /* One without lines has a meaning, too: everything is as usual there. */
    return leat_ini_names_store(ini->section) ? ini->each(ini->section, "", "", ini->line, ini->user, err) : LEAT_OK;
}

static leat_status take_setting(struct ini *ini, char *s, bool indented, struct leat_error *err)
{
    char *eq = strchr(s, '=');
    if (!eq)
        /* The line is not quoted: in a credentials file it may be a secret. */
        return leat_fail(err, LEAT_INVALID, "%s line %u: not KEY = VALUE", ini->name, ini->line);
    *eq = '\0';
    char *key = trim(s);
    char *value = trim(eq + 1);
    if (!*key || strlen(key) >= NAME_BYTES)
        return leat_fail(err, LEAT_INVALID, "%s line %u: no usable name before '='", ini->name, ini->line);
    char full[2 * NAME_BYTES];
    if (indented && ini->parent[0]) {
        snprintf(full, sizeof full, "%s.%s", ini->parent, key);
        return ini->each(ini->section, full, value, ini->line, ini->user, err);
    }
    snprintf(ini->parent, sizeof ini->parent, "%s", *value ? "" : key);
    return ini->each(ini->section, key, value, ini->line, ini->user, err);
}

leat_status leat_ini_parse(const char *name, const char *text, size_t n, leat_ini_line *each, void *user,
                           struct leat_error *err)
{
    static const char bom[] = {'\xef', '\xbb', '\xbf'}; /* editors on Windows leave it */
    struct ini ini = {.name = name, .each = each, .user = user};
    if (n >= sizeof bom && memcmp(text, bom, sizeof bom) == 0) {
        text += sizeof bom;
        n -= sizeof bom;
    }
    if (n && memchr(text, '\0', n))
        return leat_fail(err, LEAT_INVALID, "%s holds a NUL byte: not a text file", name);
    for (size_t at = 0; at < n;) {
        const char *start = text + at;
        const char *nl = memchr(start, '\n', n - at);
        size_t len = nl ? (size_t)(nl - start) : n - at;
        at += len + 1;
        ini.line++;
        char line[LINE_BYTES];
        if (len >= sizeof line)
            return leat_fail(err, LEAT_INVALID, "%s line %u: longer than %d bytes", name, ini.line, LINE_BYTES - 1);
        memcpy(line, start, len);
        line[len] = '\0';
        cut_comment(line);
        bool indented = blank(line[0]);
        char *s = trim(line);
        if (!*s)
            continue;
        leat_status rc = *s == '[' ? take_section(&ini, s, err) : take_setting(&ini, s, indented, err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static leat_status fail_open(const char *path, int os_error, struct leat_error *err)
{
    struct stat st;
    leat_status rc = leat_fail_errno(err, os_error, "cannot open '%s'", path);
    if (os_error != EACCES || stat(path, &st) == 0)
        return rc;
    /* Its folder is closed to us: another user's home, say, in which nobody keeps settings for us. */
    if (err)
        err->status = LEAT_NOT_FOUND;
    return LEAT_NOT_FOUND;
}

leat_status leat_ini_read(const char *path, leat_ini_line *each, void *user, struct leat_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_open(path, errno, err);
    leat_status rc;
    size_t n = 0;
    ssize_t got = 0;
    char *text = malloc(FILE_MAX + 1); /* one more, to see that there is more */
    if (!text) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to read '%s'", path);
        goto out;
    }
    while (n <= FILE_MAX && ((got = read(fd, text + n, FILE_MAX + 1 - n)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    if (got < 0)
        rc = leat_fail_errno(err, errno, "cannot read '%s'", path);
    else if (n > FILE_MAX)
        rc = leat_fail(err, LEAT_INVALID, "'%s' is larger than 1 MiB: not a config file", path);
    else
        rc = leat_ini_parse(path, text, n, each, user, err);
out:
    free(text);
    close(fd);
    return rc;
}

bool leat_ini_own(char *out, size_t n)
{
    const char *set = getenv("LEAT_CONFIG");
    if (set && *set) {
        snprintf(out, n, "%s", set);
        return true;
    }
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    out[0] = '\0';
    if (xdg && *xdg)
        snprintf(out, n, "%s/leat/config", xdg);
    else if (home && *home)
        snprintf(out, n, "%s/.config/leat/config", home);
    return false;
}
