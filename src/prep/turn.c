#include "prep/turn.h"

#include <string.h>

/* The stored picture is, by orientation: mirrored left to right, upside down, with rows and columns exchanged.
 * Stored x comes from the upright x (or y, when exchanged), counted from the other end where mirrored. */
static const struct {
    bool exchanged;
    bool mirror_x; /* of the stored picture's own axes */
    bool mirror_y;
} turns[9] = {
    [1] = {false, false, false}, [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
    [5] = {true, false, false},  [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false},
};

bool leat_orientation_swaps(uint8_t orientation)
{
    return turns[orientation].exchanged;
}

struct leat_box leat_orientation_box(uint8_t orientation, uint32_t width, uint32_t height, const struct leat_box *box)
{
    struct leat_box b = *box;
    if (turns[orientation].exchanged)
        b = (struct leat_box){box->y, box->x, box->height, box->width};
    if (turns[orientation].mirror_x)
        b.x = width - b.x - b.width;
    if (turns[orientation].mirror_y)
        b.y = height - b.y - b.height;
    return b;
}

static void give(struct leat_rows *rows, const uint8_t *const *row)
{
    struct leat_turn *t = (struct leat_turn *)rows;
    if (t->taken == t->height)
        return;
    for (unsigned i = 0; i < t->planes; i++)
        memcpy(t->plane[i] + (size_t)t->width * t->taken, row[i], t->width);
    t->taken++;
}

leat_status leat_turn_open(struct leat_turn *turn, struct leat_arena *arena, unsigned planes, uint32_t width,
                           uint32_t height, struct leat_error *err)
{
    *turn = (struct leat_turn){.rows.give = give, .planes = planes, .width = width, .height = height};
    size_t line = (size_t)(width > height ? width : height) + 64 + LEAT_ROW_PAD;
    for (unsigned i = 0; i < planes; i++) {
        turn->plane[i] = leat_arena_take(arena, (size_t)width * height);
        turn->line[i] = leat_arena_take(arena, line);
        if (!turn->plane[i] || !turn->line[i])
            return leat_arena_fail(arena, err);
        memset(turn->line[i], 0, line);
    }
    return LEAT_OK;
}

void leat_turn_into(struct leat_turn *turn, uint8_t orientation, struct leat_rows *to)
{
    bool exchanged = turns[orientation].exchanged;
    uint32_t width = exchanged ? turn->height : turn->width;
    uint32_t height = exchanged ? turn->width : turn->height;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint32_t sx = exchanged ? y : x;
            uint32_t sy = exchanged ? x : y;
            sx = turns[orientation].mirror_x ? turn->width - 1 - sx : sx;
            sy = turns[orientation].mirror_y ? turn->height - 1 - sy : sy;
            for (unsigned i = 0; i < turn->planes; i++)
                turn->line[i][x] = turn->plane[i][(size_t)turn->width * sy + sx];
        }
        to->give(to, (const uint8_t *const *)turn->line);
    }
}
