/* Measures image preparation: pictures in memory, one thread or many, one line of JSON.
 *
 *   bench_prep --make SET DIR                 writes a set of pictures (photo, photo-large, small, yuv444,
 *                                             progressive, large, mixed)
 *   bench_prep [options] FILE…                runs over these files
 *   bench_prep [options] --own N              runs over N pictures it makes itself (of the set "small")
 *
 *   --what exact|fast|bare|crop|resize|jitter|trivial|dino        the pipeline; libjpeg decoding whole pictures; exact
 * without a resize; 500x500 pixels in memory to 224x224, nothing decoded
 *   --pipeline TEXT                           any other pipeline whose outputs have one size
 *   --threads N  --seconds S  --level NAME    NAME: scalar, avx2, avx512
 *   --pin                                     thread i on the i-th processor allowed
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "photos.h"
#include "prep/pipeline.h"
#ifndef LEAT_WITHOUT_PNG
#include <spng.h>
#endif

#define SET_SIZE 48

struct options {
    const char *what;
    const char *level;
    const char *pipeline;
    unsigned threads;
    double seconds;
    bool pin;
    unsigned own;
};

#define VIEWS_MAX 10

/* What is made of a picture: views, of up to three kinds. */
static const struct recipe {
    const char *name;
    struct {
        unsigned count;
        const char *text;
    } part[3];
} recipes[] = {
    {"exact", {{1, "random_resized_crop=224 flip"}}},
    {"bare", {{1, "random_resized_crop=224 flip"}}},
    {"resize", {{1, "random_resized_crop=224 flip"}}},
    {"fast", {{1, "mode=fast random_resized_crop=224 flip"}}},
    {"crop", {{1, "random_crop=224 flip"}}},
    {"jitter",
     {{1, "random_resized_crop=224 flip color_jitter=0.4:0.4:0.2:0.1 gaussian_blur=23 sigma=0.1:2 solarize=128 p=1"}}},
    {"trivial", {{1, "random_resized_crop=224 flip trivial_augment"}}},
    {"dino",
     {{1, "random_resized_crop=224 scale=0.4:1 flip color_jitter=0.4:0.4:0.2:0.1 p=0.8 grayscale=0.2 gaussian_blur=23 "
          "filter=bicubic"},
      {1, "random_resized_crop=224 scale=0.4:1 flip color_jitter=0.4:0.4:0.2:0.1 p=0.8 grayscale=0.2 gaussian_blur=23 "
          "p=0.1 solarize=128 p=0.2 filter=bicubic"},
      {8, "random_resized_crop=96 scale=0.05:0.4 flip color_jitter=0.4:0.4:0.2:0.1 p=0.8 grayscale=0.2 gaussian_blur=9 "
          "p=0.5 filter=bicubic"}}},
};

struct bench {
    struct options options;
    struct encoded *files;
    size_t count;
    struct leat_pipeline *pipelines[VIEWS_MAX]; /* the views of one picture */
    unsigned views;
    _Atomic bool stop;
    pthread_barrier_t start;
};

struct worker {
    pthread_t thread;
    struct bench *bench;
    unsigned number;
    uint64_t images;
    double cpu_s;
    double wall_s;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_prep: %s\n", what);
    exit(1);
}

static double seconds_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct encoded read_file(const char *path)
{
    struct encoded e = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        die(path);
    fseek(f, 0, SEEK_END);
    e.size = (size_t)ftell(f);
    rewind(f);
    e.data = malloc(e.size + 1);
    if (fread(e.data, 1, e.size, f) != e.size)
        die(path);
    fclose(f);
    return e;
}

/* Whole pictures by libjpeg alone, the decompressor reused: what its users would write. */
struct bare {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr err;
    uint8_t *rows;
    size_t rows_size;
};

static void bare_decode(struct bare *b, const struct encoded *e)
{
    jpeg_mem_src(&b->cinfo, e->data, e->size);
    jpeg_read_header(&b->cinfo, TRUE);
    b->cinfo.out_color_space = JCS_RGB;
    jpeg_start_decompress(&b->cinfo);
    size_t stride = (size_t)b->cinfo.output_width * 3;
    if (stride * b->cinfo.output_height > b->rows_size) {
        b->rows_size = stride * b->cinfo.output_height;
        free(b->rows);
        b->rows = malloc(b->rows_size);
    }
    while (b->cinfo.output_scanline < b->cinfo.output_height) {
        JSAMPROW rows[4];
        for (unsigned i = 0; i < 4; i++)
            rows[i] = b->rows + stride * (b->cinfo.output_scanline + i);
        jpeg_read_scanlines(&b->cinfo, rows, 4);
    }
    jpeg_finish_decompress(&b->cinfo);
}

/* Interleaved pixels in, interleaved pixels out, by the same passes as after a decoder. */
static void resize_once(struct leat_arena *arena, const struct leat_kernels *kernels, const uint8_t *rgb, uint8_t *slot)
{
    struct leat_geometry g = {
        .crop = {0, 0, 500, 500},
        .resized = {224, 224},
        .window = {0, 0, 224, 224},
        .output = {224, 224},
    };
    struct leat_target target = {.data = slot, .channels = 3};
    struct leat_plane_scale whole = {1, 1, 500, 500};
    struct leat_decode decode = {.kernels = kernels, .arena = arena};
    struct leat_splitter splitter;
    struct leat_sink sink;
    struct leat_error err;
    leat_arena_reset(arena);
    if (leat_sink_open(&sink, kernels, arena, &target, &g, 3, false, &whole, &err) != LEAT_OK ||
        leat_splitter_open(&splitter, &decode, &sink.rows, 3, 3, 500, &err) != LEAT_OK)
        die(err.text);
    for (unsigned y = 0; y < 500; y++)
        leat_splitter_give(&splitter, rgb + (size_t)y * 1500);
}

static void pin(unsigned number)
{
    cpu_set_t all;
    cpu_set_t one;
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof all, &all);
    unsigned seen = 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && seen++ == number) {
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct bench *b = w->bench;
    bool bare = strcmp(b->options.what, "bare") == 0;
    bool resize = strcmp(b->options.what, "resize") == 0;
    struct picture flat = resize ? picture_make(500, 500, 1) : (struct picture){0};
    struct leat_arena arena;
    struct bare lib = {0};
    struct leat_scratch *scratch = NULL;
    struct leat_error err;
    struct leat_view views[VIEWS_MAX];
    uint8_t *slot = malloc((size_t)VIEWS_MAX * 224 * 224 * 3);
    for (unsigned i = 0; i < b->views; i++) {
        uint32_t width;
        uint32_t height;
        leat_pipeline_size(b->pipelines[i], &width, &height);
        views[i] = (struct leat_view){.pipeline = b->pipelines[i], .to = slot + (size_t)i * 224 * 224 * 3};
        views[i].to_bytes = leat_pipeline_bytes(b->pipelines[i], width, height);
    }
    const struct leat_kernels *kernels = b->options.level ? leat_kernels_named(b->options.level) : NULL;
    if (b->options.level && !kernels)
        die("this processor does not have that level");
    if (b->options.pin)
        pin(w->number);
    if (bare) {
        lib.cinfo.err = jpeg_std_error(&lib.err);
        jpeg_create_decompress(&lib.cinfo);
    } else if (leat_scratch_open(0, kernels, &scratch, &err) != LEAT_OK) {
        die(err.text);
    }
    leat_arena_init(&arena, (size_t)1 << 28);
    if (!kernels)
        kernels = leat_kernels();
    uint64_t at = (uint64_t)w->number * 7919;
    pthread_barrier_wait(&b->start);
    double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double wall = seconds_of(CLOCK_MONOTONIC);
    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        const struct encoded *e = &b->files[at % b->count];
        for (unsigned i = 0; i < b->views; i++)
            views[i].draws = leat_prep_draws(1, at % b->count, (uint32_t)(at / b->count), i);
        if (bare)
            bare_decode(&lib, e);
        else if (resize)
            resize_once(&arena, kernels, flat.rgb, slot);
        else if (leat_pipeline_run_views(scratch, e->data, e->size, views, b->views, &err) != LEAT_OK)
            die(err.text);
        at++;
        w->images++;
    }
    w->cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    w->wall_s = seconds_of(CLOCK_MONOTONIC) - wall;
    leat_scratch_close(scratch);
    if (bare)
        jpeg_destroy_decompress(&lib.cinfo);
    leat_arena_free(&arena);
    free(flat.rgb);
    free(lib.rows);
    free(slot);
    return NULL;
}

static void run(struct bench *b)
{
    struct worker *workers = calloc(b->options.threads, sizeof *workers);
    struct worker total = {0};
    pthread_barrier_init(&b->start, NULL, b->options.threads + 1);
    for (unsigned i = 0; i < b->options.threads; i++) {
        workers[i].bench = b;
        workers[i].number = i;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            die("cannot start a thread");
    }
    pthread_barrier_wait(&b->start);
    struct timespec pause = {(time_t)b->options.seconds,
                             (long)((b->options.seconds - floor(b->options.seconds)) * 1e9)};
    nanosleep(&pause, NULL);
    atomic_store(&b->stop, true);
    for (unsigned i = 0; i < b->options.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        total.images += workers[i].images;
        total.cpu_s += workers[i].cpu_s;
        total.wall_s = workers[i].wall_s > total.wall_s ? workers[i].wall_s : total.wall_s;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double encoded = 0;
    for (size_t i = 0; i < b->count; i++)
        encoded += (double)b->files[i].size;
    printf("{\"what\": \"%s\", \"level\": \"%s\", \"threads\": %u, \"images\": %llu, \"images_per_s\": %.1f, "
           "\"cpu_s_per_1000\": %.4f, \"files\": %zu, \"mean_file_bytes\": %.0f, \"peak_rss_kib\": %ld}\n",
           b->options.what, b->options.level ? b->options.level : leat_kernels()->name, b->options.threads,
           (unsigned long long)total.images, (double)total.images / total.wall_s,
           total.cpu_s / (double)total.images * 1000.0, b->count, encoded / (double)b->count, usage.ru_maxrss);
    free(workers);
}

#ifndef LEAT_WITHOUT_PNG
static struct encoded png_make(const struct picture *p)
{
    struct encoded e = {0};
    int error = 0;
    struct spng_ihdr header = {.width = p->width, .height = p->height, .bit_depth = 8, .color_type = 2};
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    spng_set_ihdr(ctx, &header);
    spng_encode_image(ctx, p->rgb, (size_t)p->width * p->height * 3, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    e.data = spng_get_png_buffer(ctx, &e.size, &error);
    spng_ctx_free(ctx);
    return e;
}
#endif

/* Picture i of a set. Sizes vary a little, as photographs do. */
static struct encoded set_member(const char *set, unsigned i, const char **suffix)
{
    bool large = strcmp(set, "large") == 0;
    *suffix = "jpg";
    if (strncmp(set, "photo", 5) == 0)
        return photo_file(i, set[5]);
    struct jpeg_choice choice = {.quality = large ? 85 : 94};
    uint32_t side = large ? 1000 + i * 1000 / SET_SIZE : 460 + i * 4 % 100;
    struct picture p = picture_make(i % 3 ? side : side * 3 / 4, i % 3 ? side * 3 / 4 : side, i + 1);
    struct encoded e;
    if (strcmp(set, "yuv444") == 0)
        choice.h = choice.v = 1;
    choice.progressive = strcmp(set, "progressive") == 0;
#ifndef LEAT_WITHOUT_PNG
    if (strcmp(set, "mixed") == 0 && i % 4 == 3) {
        *suffix = "png";
        e = png_make(&p);
        free(p.rgb);
        return e;
    }
#endif
    e = jpeg_make(&p, &choice);
    free(p.rgb);
    return e;
}

static int make_set(const char *set, const char *dir)
{
    for (unsigned i = 0; i < SET_SIZE; i++) {
        const char *suffix;
        char path[4096];
        struct encoded e = set_member(set, i, &suffix);
        snprintf(path, sizeof path, "%s/%03u.%s", dir, i, suffix);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(e.data, 1, e.size, f) != e.size || fclose(f) != 0)
            die(path);
        free(e.data);
    }
    return 0;
}

static void make_views(struct bench *b)
{
    const struct recipe *r = NULL;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        if (strcmp(recipes[i].name, b->options.what) == 0)
            r = &recipes[i];
    }
    const struct recipe said = {.part = {{1, b->options.pipeline}}};
    r = b->options.pipeline ? &said : r;
    if (!r)
        die("nothing of that name");
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned i = 0; i < r->part[k].count; i++) {
            struct leat_prep_description d;
            struct leat_error err;
            if (leat_prep_parse(r->part[k].text, &d, &err) != LEAT_OK ||
                leat_pipeline_make(&d, &b->pipelines[b->views++], &err) != LEAT_OK)
                die(err.text);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.options = {.what = "exact", .threads = 1, .seconds = 3}};
    int i = 1;
    if (argc == 4 && strcmp(argv[1], "--make") == 0)
        return make_set(argv[2], argv[3]);
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--pin") == 0) {
            b.options.pin = true;
            continue;
        }
        if (strcmp(argv[i], "--what") == 0)
            b.options.what = value;
        else if (strcmp(argv[i], "--pipeline") == 0)
            b.options.pipeline = value;
        else if (strcmp(argv[i], "--level") == 0)
            b.options.level = value;
        else if (strcmp(argv[i], "--threads") == 0)
            b.options.threads = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            b.options.seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--own") == 0)
            b.options.own = (unsigned)strtoul(value, NULL, 10);
        else
            die("unknown option");
        i++;
    }
    b.count = b.options.own ? b.options.own : (size_t)(argc - i);
    if (b.count == 0 || b.options.threads == 0)
        die("no files, or no threads");
    b.files = calloc(b.count, sizeof *b.files);
    for (size_t n = 0; n < b.count; n++) {
        const char *suffix;
        b.files[n] = b.options.own ? set_member("small", (unsigned)n, &suffix) : read_file(argv[i + (int)n]);
    }
    make_views(&b);
    run(&b);
    for (unsigned n = 0; n < b.views; n++)
        leat_pipeline_free(b.pipelines[n]);
    return 0;
}
