/* INI files: Leat's own config and the ~/.aws ones. `key = value` lines under optional [sections];
 * '#' and ';' start a comment at the beginning of a line or after white space. */
#ifndef LEAT_BASE_INI_H
#define LEAT_BASE_INI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* One setting. `section` is "" before the first header. A nested line (AWS's "s3 =" followed by indented
 * lines) arrives as its own key with its parent's name and a dot before it. Return LEAT_OK to go on. */
typedef leat_status leat_ini_line(const char *section, const char *key, const char *value, unsigned line, void *user,
                                  struct leat_error *err);

/* `name` is what errors call the text. */
leat_status leat_ini_parse(const char *name, const char *text, size_t n, leat_ini_line *each, void *user,
                           struct leat_error *err);

/* The same for a file of at most 1 MiB. LEAT_NOT_FOUND when there is none, or its folder is closed to us. */
leat_status leat_ini_read(const char *path, leat_ini_line *each, void *user, struct leat_error *err);

/* Leat's own config file: $LEAT_CONFIG, else $XDG_CONFIG_HOME/leat/config, else ~/.config/leat/config; "": there is no
 * place for one. True: it was named, and must be there. */
bool leat_ini_own(char *out, size_t n);

/* Whether a section of it is for a store, [store URL], and not for a command. Such a section arrives by itself first,
 * with no key and no value. */
bool leat_ini_names_store(const char *section);

#endif
