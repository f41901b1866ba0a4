/* Any text as a pipeline, and what it would do to pictures of several sizes. */

#include "fuzz.h"
#include "prep/pipeline.h"

FUZZ(pipeline)
{
    static const uint32_t sizes[][2] = {{1, 1}, {500, 375}, {65535, 1}, {3, 60000}};
    struct leat_prep_description d;
    struct leat_pipeline *p;
    struct leat_error err;
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (leat_prep_parse(text, &d, &err) == LEAT_OK && leat_pipeline_make(&d, &p, &err) == LEAT_OK) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct leat_image_info info = {.width = sizes[i][0], .height = sizes[i][1], .orientation = 1 + size % 8};
            struct leat_drawn drawn;
            if (leat_pipeline_plan(p, &info, leat_rng(1, size), &drawn, &err) != LEAT_OK)
                continue;
            struct leat_geometry g = drawn.geometry;
            if (g.window.width > g.output[0] || g.place[0] > g.output[0] - g.window.width ||
                g.window.height > g.output[1] || g.place[1] > g.output[1] - g.window.height)
                abort();
        }
        leat_pipeline_free(p);
    }
    free(text);
}
