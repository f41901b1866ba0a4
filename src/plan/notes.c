#include "plan/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

void leat_plan_note(struct leat_plan_notes *notes, const char *format, ...)
{
    char text[sizeof notes->line[0]];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    leat_one_line(text);
    for (size_t i = 0; i < notes->count; i++) {
        if (strcmp(notes->line[i], text) == 0) {
            notes->times[i]++;
            return;
        }
    }
    if (notes->count < LEAT_PLAN_NOTES_MAX) {
        notes->times[notes->count] = 1;
        memcpy(notes->line[notes->count++], text, sizeof text);
    } else {
        notes->more++;
    }
}

const char *leat_plan_tail(const char *path)
{
    const char *tail = path;
    const char *slash;
    while (strlen(tail) > 60 && (slash = strchr(tail + 1, '/')) != NULL)
        tail = slash + 1;
    return tail;
}
