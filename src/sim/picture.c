#include "sim/picture.h"

#include <math.h>

#define WIDTH  860
#define HEIGHT 470
#define LEFT   70
#define RIGHT  210 /* room for the legend */
#define TOP    64
#define BOTTOM 52

/* Distinct for readers who see colours differently, too (Okabe and Ito). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#e69f00", "#009e73", "#7f7f7f", "#cc79a7"};

#define COLOURS (sizeof colours / sizeof colours[0])

static double x_of(double cache)
{
    return LEFT + cache * (WIDTH - LEFT - RIGHT);
}

static double y_of(double bucket, double most)
{
    return HEIGHT - BOTTOM - bucket / most * (HEIGHT - TOP - BOTTOM);
}

/* The highest value on the axis, and the distance of its lines. */
static double scale(const struct leat_sim_picture *p, double *step)
{
    double most = 1;
    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < p->curves[i].n; k++)
            most = fmax(most, p->curves[i].points[k].bucket);
    }
    *step = most <= 1.5 ? 0.25 : pow(2, ceil(log2(most / 6)));
    return ceil(most / *step - 1e-6) * *step;
}

static void draw_axes(struct leat_buf *b, const struct leat_sim_picture *p, double most, double step)
{
    for (int i = 0; i <= 10; i++)
        leat_buf_printf(b,
                        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d %%</text>\n",
                        x_of(i / 10.0), x_of(i / 10.0), TOP, HEIGHT - BOTTOM, x_of(i / 10.0), HEIGHT - BOTTOM + 18,
                        10 * i);
    for (int i = 0; i * step <= most + 1e-9; i++)
        leat_buf_printf(b,
                        "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g %%</text>\n",
                        LEFT, WIDTH - RIGHT, y_of(i * step, most), y_of(i * step, most), LEFT - 8,
                        y_of(i * step, most) + 4, 100 * i * step);
    leat_buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    leat_buf_xml(b, p->cache);
    leat_buf_str(b, ", share of the dataset</text>\n");
}

static void draw_legend(struct leat_buf *b, size_t row, const char *class, const char *colour, const char *name)
{
    double y = TOP + 14 + 22.0 * (double)row;
    leat_buf_printf(
        b,
        "<line class=\"%s\" stroke=\"%s\" stroke-width=\"2.5\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text x=\"%d\" y=\"%.1f\">",
        class, colour, WIDTH - RIGHT + 16, WIDTH - RIGHT + 44, y, y, WIDTH - RIGHT + 52, y + 4);
    leat_buf_xml(b, name);
    leat_buf_str(b, "</text>\n");
}

static void draw_curve(struct leat_buf *b, const struct leat_sim_curve *c, const char *colour, double width,
                       double most)
{
    leat_buf_printf(b, "<polyline class=\"policy\" stroke=\"%s\" stroke-width=\"%.1f\" points=\"", colour, width);
    for (size_t k = 0; k < c->n; k++)
        leat_buf_printf(b, "%.1f,%.1f ", x_of(c->points[k].cache), y_of(c->points[k].bucket, most));
    leat_buf_str(b, "\"/>\n");
    for (size_t k = 0; k < c->n; k++) {
        leat_buf_printf(b, "<circle fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>", colour,
                        x_of(c->points[k].cache), y_of(c->points[k].bucket, most));
        leat_buf_xml(b, c->name);
        leat_buf_printf(b, ": cache %.1f %%, from the bucket %.1f %%</title></circle>\n", 100 * c->points[k].cache,
                        100 * c->points[k].bucket);
    }
}

void leat_sim_picture(const struct leat_sim_picture *p, struct leat_buf *b)
{
    double step;
    double most = scale(p, &step);
    leat_buf_printf(b,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
                    "<style>text{font:13px system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}"
                    ".grid{stroke:#ddd}.policy{fill:none;stroke-linejoin:round}"
                    ".bound{stroke-width:1.5;stroke-dasharray:7 4}</style>\n"
                    "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text class=\"title\" x=\"%d\" y=\"24\">",
                    WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    leat_buf_xml(b, p->title);
    leat_buf_printf(b, "</text>\n<text x=\"%d\" y=\"46\">", LEFT);
    leat_buf_xml(b, p->subtitle);
    leat_buf_str(b, "</text>\n");
    draw_axes(b, p, most, step);
    leat_buf_printf(b, "<line class=\"bound\" stroke=\"#333\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                    x_of(0), y_of(1, most), x_of(1), y_of(0, most));
    for (size_t i = p->n; i-- > 0;) /* the first on top, and narrower, so that those under it are seen */
        draw_curve(b, &p->curves[i], colours[i % COLOURS], 2 + (double)i, most);
    for (size_t i = 0; i < p->n; i++)
        draw_legend(b, i, "policy", colours[i % COLOURS], p->curves[i].name);
    draw_legend(b, p->n, "bound", "#333", "dataset − cache");
    leat_buf_str(b, "</svg>\n");
}
