#include "plan/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void leat_plan_note(struct leat_plan_notes *notes, const char *format, ...)
{
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < notes->count; i++) {
        if (strcmp(notes->line[i], text) == 0)
            return;
    }
    char *copy = notes->count < LEAT_PLAN_NOTES_MAX ? strdup(text) : NULL;
    if (copy)
        notes->line[notes->count++] = copy;
    else
        notes->more++;
}

void leat_plan_notes_free(struct leat_plan_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->line[i]);
    *notes = (struct leat_plan_notes){0};
}

const char *leat_plan_tail(const char *path)
{
    const char *tail = path;
    const char *slash;
    while (strlen(tail) > 60 && (slash = strchr(tail + 1, '/')) != NULL)
        tail = slash + 1;
    return tail;
}
