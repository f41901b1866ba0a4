#include <math.h>

#include "profile/page.h"

#define WIDTH     440
#define HEIGHT    240
#define LEFT      56
#define RIGHT     16
#define TOP       14
#define BOTTOM    44
#define TICKS_MAX 64u

struct frame {
    double x_low, x_high;
    double y_high;
    double unit; /* of y, in seconds */
    bool log;
};

static double at_x(const struct frame *f, double x)
{
    double share = f->log ? log(x / f->x_low) / log(f->x_high / f->x_low) : (x - f->x_low) / (f->x_high - f->x_low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - fmin(1, y / f->y_high) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that there are three to six of them. */
static double tick_of(double span)
{
    double power = pow(10, floor(log10(span)));
    double share = span / power;
    return share >= 5 ? power : share >= 2 ? power / 2 : power / 5;
}

static void axes(struct leat_buf *out, const struct frame *f, const char *x_unit)
{
    double step = tick_of(f->y_high / f->unit) * f->unit;
    for (unsigned i = 0; i < TICKS_MAX && i * step <= f->y_high * 1.0001; i++) {
        double y = i * step;
        leat_buf_printf(out,
                        "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                        "text-anchor=\"end\">%g</text>\n",
                        LEFT, WIDTH - RIGHT, at_y(f, y), at_y(f, y), LEFT - 6, at_y(f, y) + 4,
                        round(y / f->unit * 1e6) / 1e6);
    }
    step = f->log ? 0 : fmax(1, tick_of(f->x_high - f->x_low)); /* percentages, cores, workers: whole numbers */
    double x = f->log ? f->x_low : ceil(f->x_low / step) * step;
    for (unsigned i = 0; i < TICKS_MAX && x <= f->x_high * 1.0001; i++) {
        leat_buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", at_x(f, x),
                        HEIGHT - BOTTOM + 17, x);
        x = f->log ? 2 * x : x + step;
    }
    leat_buf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                    HEIGHT - 8, x_unit);
    leat_buf_printf(out, "<text transform=\"translate(13 %d) rotate(-90)\" text-anchor=\"middle\">a step, %s</text>\n",
                    (TOP + HEIGHT - BOTTOM) / 2,
                    f->unit == 1      ? "s"
                    : f->unit == 1e-3 ? "ms"
                                      : "µs");
}

void leat_page_curve(struct leat_buf *out, const char *name, const char *x_unit, const struct leat_page_point *points,
                     size_t n, double now_x)
{
    struct frame f = {.x_low = points[0].x, .x_high = points[n - 1].x};
    for (size_t i = 0; i < n; i++)
        f.y_high = fmax(f.y_high, points[i].y.high > 0 ? points[i].y.high : points[i].y.mean);
    f.log = f.x_low > 0 && f.x_high > 10 * f.x_low;
    f.unit = f.y_high >= 1 ? 1 : f.y_high >= 1e-3 ? 1e-3 : 1e-6;
    f.y_high *= 1.05;
    leat_buf_printf(out,
                    "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
                    name, WIDTH, HEIGHT, name);
    axes(out, &f, x_unit);
    leat_buf_str(out, "<path class=\"band\" d=\"");
    for (size_t i = 0; i < n; i++)
        leat_buf_printf(out, "%s%.1f %.1f", i ? "L" : "M", at_x(&f, points[i].x), at_y(&f, points[i].y.high));
    for (size_t i = n; i-- > 0;)
        leat_buf_printf(out, "L%.1f %.1f", at_x(&f, points[i].x), at_y(&f, points[i].y.low));
    leat_buf_str(out, "Z\"/><path class=\"line\" d=\"");
    for (size_t i = 0; i < n; i++)
        leat_buf_printf(out, "%s%.1f %.1f", i ? "L" : "M", at_x(&f, points[i].x), at_y(&f, points[i].y.mean));
    leat_buf_str(out, "\"/>\n");
    for (size_t i = 0; i < n; i++)
        leat_buf_printf(out,
                        "<circle class=\"dot%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>%g %s: %.4g ms (%.4g … "
                        "%.4g)</title></circle>\n",
                        points[i].x == now_x ? " now" : "", at_x(&f, points[i].x), at_y(&f, points[i].y.mean),
                        points[i].x == now_x ? "5" : "3", points[i].x, x_unit, points[i].y.mean * 1e3,
                        points[i].y.low * 1e3, points[i].y.high * 1e3);
    leat_buf_str(out, "</svg></figure>\n");
}
