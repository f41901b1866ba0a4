/* A shared library that is looked for when it is first needed: code that never needs it never pays for it, and where it
 * is missing everything else works. Looked for where the system looks, and first where the program that asks says so in
 * its own RUNPATH: a wheel that brings its libraries along uses those.
 *
 * A library is declared once as a static object and stays open until the process ends. Thread-safe. */
#ifndef LEAT_BASE_LIBRARY_H
#define LEAT_BASE_LIBRARY_H

#include <stdbool.h>

#include "base/error.h"

typedef void (*leat_library_call)(void);

struct leat_library {
    const char *soname;       /* "libtiff.so.6" */
    const char *package;      /* that has it, for the error: "libtiff6" */
    const char *const *names; /* of functions; ends with NULL */
    leat_library_call *calls; /* as many, filled in when it is opened */
    _Atomic bool open;
};

/* LEAT_UNSUPPORTED, with a sentence that names the library, where it is missing or lacks a function. */
leat_status leat_library_open(struct leat_library *library, struct leat_error *err);

#endif
