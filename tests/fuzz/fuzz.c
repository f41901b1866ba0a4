/* Fuzz targets as tests, with any compiler: `fuzz NAME FOLDER` runs one over FOLDER/corpus/NAME, `fuzz NAME FOLDER
 * SECONDS [SEED]` then over mutations of it, and `fuzz NAME FILE...` over files. The same seed makes the same inputs,
 * in the same order; only their number depends on the machine. An input that breaks a target is written to a file. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "mutate.h"

#define INPUT_MAX ((size_t)4096)
#define INPUT_S   10  /* of the processor, for one input */
#define WAIT_S    100 /* … and by the clock: it waits for something */

static struct fuzz_target *targets;

struct list {
    struct mutate_bytes *items;
    size_t n;
};

/* The input that runs now, for the report if it breaks the target. */
static struct {
    const char *name;
    const uint8_t *data;
    size_t size;
    const char *file; /* of the corpus; NULL: a mutation */
    uint64_t seed;
    volatile uint64_t number;
    uint64_t seen; /* number at the last tick of a clock */
    char kept[128];
} now;

void fuzz_add(struct fuzz_target *target)
{
    target->next = targets;
    targets = target;
}

/* May be called in a signal handler: what it uses is no worse off than the process. */
static void report(void)
{
    if (!now.data)
        return;
    if (now.file) {
        fprintf(stderr, "fuzz: %s is broken by %s\n", now.name, now.file);
    } else {
        int fd = open(now.kept, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        bool kept = fd >= 0 && write(fd, now.data, now.size) == (ssize_t)now.size;
        fprintf(stderr, "fuzz: %s is broken by input %llu of seed %llu (%zu bytes)%s%s\n", now.name,
                (unsigned long long)now.number, (unsigned long long)now.seed, now.size, kept ? ", kept in " : "",
                kept ? now.kept : "");
    }
    now.data = NULL;
}

static void on_death(int signal)
{
    report();
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &usual, NULL);
    raise(signal);
}

/* The same input at two ticks. */
static void on_tick(int signal)
{
    if (!now.data || now.seen != now.number) {
        now.seen = now.number;
        return;
    }
    fprintf(stderr, "fuzz: one input takes more than %d seconds %s\n", signal == SIGPROF ? INPUT_S : WAIT_S,
            signal == SIGPROF ? "of the processor" : "of waiting");
    report();
    _exit(1);
}

/* The sanitizers' runtime, where there is one: it reports by itself and ends the process its own way. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction death = {.sa_handler = on_death};
    struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval prof = {.it_interval.tv_sec = INPUT_S, .it_value.tv_sec = INPUT_S};
    struct itimerval real = {.it_interval.tv_sec = WAIT_S, .it_value.tv_sec = WAIT_S};
    sigaction(SIGABRT, &death, NULL);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(report);
    for (size_t i = 0; !__sanitizer_set_death_callback && i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &death, NULL);
    sigaction(SIGPROF, &tick, NULL);
    sigaction(SIGALRM, &tick, NULL);
    setitimer(ITIMER_PROF, &prof, NULL);
    setitimer(ITIMER_REAL, &real, NULL);
}

/* Runs it from memory of exactly its size, so that reading past its end is seen. */
static void run(const struct fuzz_target *target, const char *file, const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);
    PROMISE(exact);
    memcpy(exact, data, n);
    now.file = file;
    now.size = n;
    now.data = data;
    target->run(exact, n);
    now.data = NULL;
    free(exact);
}

static void add(struct list *list, const uint8_t *data, size_t n)
{
    list->items = realloc(list->items, (list->n + 1) * sizeof *list->items);
    uint8_t *own = malloc(n + 1);
    PROMISE(list->items && own);
    memcpy(own, data, n);
    list->items[list->n++] = (struct mutate_bytes){own, n};
}

static void free_list(struct list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].data);
    free(list->items);
}

/* Runs the file and keeps it in the list. */
static void take_file(const struct fuzz_target *target, const char *path, struct list *list)
{
    FILE *f = fopen(path, "rb");
    PROMISE(f);
    PROMISE(fseek(f, 0, SEEK_END) == 0);
    long n = ftell(f);
    PROMISE(n >= 0);
    rewind(f);
    uint8_t *data = malloc((size_t)n + 1);
    PROMISE(data);
    PROMISE(fread(data, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    now.number++;
    run(target, path, data, (size_t)n);
    add(list, data, (size_t)n);
    free(data);
}

static void take_folder(const struct fuzz_target *target, const char *folder, struct list *list)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            take_file(target, path, list);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/* Words of libFuzzer's form, "word" or name="word", with \\, \" and \xAB; other lines are comments. */
static void read_words(const char *path, struct list *list)
{
    char line[512];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        uint8_t word[sizeof line];
        size_t n = 0;
        const char *p = line[0] == '#' ? NULL : strchr(line, '"');
        for (p = p ? p + 1 : NULL; p && *p && *p != '"'; p++) {
            unsigned byte = (uint8_t)*p;
            if (*p == '\\' && p[1] == 'x' && sscanf(p + 2, "%2x", &byte) == 1)
                p += 3;
            else if (*p == '\\' && p[1])
                byte = (uint8_t) * ++p;
            word[n++] = (uint8_t)byte;
        }
        if (n)
            add(list, word, n);
    }
    if (f)
        fclose(f);
}

static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Time of the processor, so that a busy machine tries as much as another. */
static void fuzz_for(const struct fuzz_target *target, const struct list *corpus, double seconds)
{
    static uint8_t data[INPUT_MAX];
    double end = processor_s() + seconds;
    for (now.number = 0; processor_s() < end; now.number++) {
        mutate_seed(now.seed, now.number);
        const struct mutate_bytes *from = &corpus->items[mutate_below(corpus->n)];
        size_t n = from->n < INPUT_MAX ? from->n : INPUT_MAX;
        memcpy(data, from->data, n);
        for (size_t times = 1 + mutate_below(4) * mutate_below(3); times; times--) {
            unsigned seed = (unsigned)mutate_below(UINT32_MAX);
            n = target->mutate ? target->mutate(data, n, INPUT_MAX, seed) : LLVMFuzzerMutate(data, n, INPUT_MAX);
        }
        run(target, NULL, data, n);
    }
}

static int usage(void)
{
    fprintf(stderr, "fuzz NAME FOLDER [SECONDS [SEED]]: FOLDER/corpus/NAME, then mutations of it\n"
                    "fuzz NAME FILE...\n"
                    "NAME is one of:");
    for (const struct fuzz_target *t = targets; t; t = t->next)
        fprintf(stderr, " %s", t->name);
    fprintf(stderr, "\n");
    return 2;
}

static size_t run_folder(const struct fuzz_target *target, const char *folder, double seconds)
{
    char path[4096];
    struct list corpus = {0};
    struct list words = {0};
    snprintf(path, sizeof path, "%s/corpus/%s", folder, target->name);
    take_folder(target, path, &corpus);
    snprintf(path, sizeof path, "%s/%s.dict", folder, target->name);
    read_words(path, &words);
    printf("%zu inputs of the corpus, %zu words\n", corpus.n, words.n);
    if (corpus.n && seconds > 0) {
        mutate_from(corpus.items, corpus.n, words.items, words.n);
        fuzz_for(target, &corpus, seconds);
        printf("%llu mutations of seed %llu\n", (unsigned long long)now.number, (unsigned long long)now.seed);
    }
    size_t n = corpus.n;
    free_list(&corpus);
    free_list(&words);
    return n;
}

int main(int argc, char **argv)
{
    const struct fuzz_target *target = targets;
    while (target && (argc < 3 || strcmp(target->name, argv[1]) != 0))
        target = target->next;
    if (!target)
        return usage();
    struct stat st;
    size_t inputs = 0;
    now.name = target->name;
    now.seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    snprintf(now.kept, sizeof now.kept, "fuzz_%s-%llu.input", target->name, (unsigned long long)now.seed);
    watch();
    if (stat(argv[2], &st) == 0 && S_ISDIR(st.st_mode)) {
        inputs = run_folder(target, argv[2], argc > 3 ? strtod(argv[3], NULL) : 0);
    } else {
        struct list files = {0};
        for (int i = 2; i < argc; i++)
            take_file(target, argv[i], &files);
        inputs = files.n;
        free_list(&files);
    }
    return inputs ? 0 : 1; /* a corpus that is not there is no passed test */
}
