/* Loaders: finished batches of a dataset, prepared by the agent and handed over in shared memory.
 *
 * A loader is used by one thread at a time: a second call that would use it fails with LEAT_BUSY. leat_loader_state()
 * and leat_loader_stats() may be called from any thread at any time, leat_loader_close() when no other call is running.
 * Different loaders are independent. After a fork the child may go on using its copy, which connects again by itself; a
 * loader that another thread of the parent was opening or moving at that moment is refused there. All text is UTF-8;
 * all strings are copied.
 *
 * Every struct here begins with its size, which the caller sets to its sizeof: that is how the library knows which
 * release the program was built for. Later releases add fields at the end. A shorter struct is read as if zeros
 * followed. A longer one is accepted if the part that the library does not know is zero, and refused with LEAT_VERSION
 * otherwise. Fields that are zero have their defaults. */
#ifndef LEAT_LOADER_H
#define LEAT_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_loader;
struct leat_batch;

/* What an output is made from. Values are part of the ABI. */
enum leat_output_kind {
    LEAT_OUTPUT_IMAGE = 1,  /* an image field through a pipeline: one fixed shape */
    LEAT_OUTPUT_INT = 2,    /* an int field: int64 */
    LEAT_OUTPUT_BYTES = 3,  /* any field as it is stored: ragged */
    LEAT_OUTPUT_STRING = 4, /* a string field: ragged */
    LEAT_OUTPUT_KEY = 5,    /* the sample's key: ragged */
    LEAT_OUTPUT_INDEX = 6,  /* the sample's number: int64 */
    LEAT_OUTPUT_VALID = 7,  /* 1, or 0 where a place is padding or its sample could not be decoded: uint8 */
    LEAT_OUTPUT_DRAWN = 8,  /* what was drawn for an image output with the same field, pipeline and view: float32[20] */
    LEAT_OUTPUT_BOXES = 9,  /* boxes in a bytes field, moved with the image they follow: ragged */
    LEAT_OUTPUT_SOUND = 10, /* WAV or FLAC in a bytes field as float32 or float16: one fixed shape, or ragged bytes */
    LEAT_OUTPUT_FLOAT = 11, /* a float field: float32 or float64 */
    LEAT_OUTPUT_JSON = 12,  /* a json field's text: ragged */
    LEAT_OUTPUT_ARRAY = 13, /* an array field: one fixed shape if it has one or is padded, else ragged */
    LEAT_OUTPUT_TOKENS = 14, /* a tokens field: ragged, or padded to one length */
    LEAT_OUTPUT_HAS = 15,    /* 1 where a sample has a value of the field: bool */
    LEAT_OUTPUT_LENGTH = 16, /* tokens, bytes, or sizes of an array's dimensions that vary: int64 */
    /* Views of blocks, of a block's tokens without the shift: */
    LEAT_OUTPUT_CU_SEQLENS = 17, /* 0, where documents begin, the length: int32, ragged, or one fixed length */
    LEAT_OUTPUT_POSITIONS = 18,  /* of each token in its document: int64 or int32 */
    LEAT_OUTPUT_DOCUMENTS = 19,  /* for each token, which document of the block it is in: int32 or int64 */
    LEAT_OUTPUT_STREAM = 20      /* which stream of a mixture the sample comes from: int64 */
};

#define LEAT_VIEW_MAX 255 /* draws are numbered with eight bits */

struct leat_output {
    size_t size;      /* sizeof(struct leat_output), in every element of an array */
    const char *name; /* of the output: "x" */
    uint32_t kind;    /* enum leat_output_kind */
    uint32_t
        view; /* IMAGE, DRAWN, BOXES, SOUND: outputs of the same view share their random draws; at most LEAT_VIEW_MAX */
    const char *field; /* of the dataset: "jpg"; NULL for KEY, INDEX, VALID */
    /* Words: IMAGE, DRAWN, BOXES: "random_resized_crop=224 flip=0.5"; SOUND: "resample=16000"; others as
     * leat_loader_output() says: "dtype=int32 default=-1", "pad=512 value=-100 cut". NULL: none. `default` comes last
     * and is everything after its '='; of bytes, in hexadecimal digits. */
    const char *pipeline;
};

/* The kinds of output by name, so that front ends need no list of their own. Texts are static. */
struct leat_output_info {
    size_t size;      /* of this struct */
    const char *name; /* "int" */
    uint32_t kind;    /* enum leat_output_kind */
    uint32_t reserved;
    const char *fields; /* types of field it can be made from, separated by spaces; "": it needs none */
    const char *words;  /* its settings, separated by spaces; "": none; "…": those of a pipeline */
    const char *dtype;  /* of its values, in words */
    const char *shape;  /* of its column, in words */
};

LEAT_API size_t leat_loader_outputs(void); /* how many there are */
LEAT_API leat_status leat_loader_output(size_t i, struct leat_output_info *out, struct leat_error *err);

enum leat_last { LEAT_LAST_DROP = 0, LEAT_LAST_PAD = 1, LEAT_LAST_SHORT = 2 };
/* What batches are for. TRAIN: nothing waits for the disk, and chunks that it has no time for are dropped. WARM: fill
 * the cache on disk; memory is used again only after its content was written. */
enum leat_purpose { LEAT_PURPOSE_TRAIN = 0, LEAT_PURPOSE_WARM = 1 };

/* Whether what has to be decoded is decoded once for all loaders of the agent that ask for the same samples in the
 * same order with the same outputs and draws. The bytes are the same either way (docs/share.md). */
enum leat_sharing { LEAT_SHARE_ON = 0, LEAT_SHARE_OFF = 1 };
enum leat_on_error { LEAT_ON_ERROR_RAISE = 0, LEAT_ON_ERROR_SKIP = 1 };

/* Zeros and NULLs mean the default. Every setting except the first few is a row of the table that
 * leat_loader_settings() reads. */
struct leat_loader_opts {
    size_t size;         /* sizeof(struct leat_loader_opts): later versions add fields at the end */
    const char *url;     /* of the dataset; "?id=HEX" or "?name=NAME" at its end names a version */
    const char *version; /* content id in hexadecimal digits, or a name; NULL: what the URL says */
    const struct leat_output *outputs;
    size_t outputs_n;
    uint32_t batch;        /* samples per rank: give exactly one of this … */
    uint32_t global_batch; /* … and samples of all ranks together, a multiple of world */
    uint32_t rank;
    uint32_t world;               /* 0: leat_loader_join() sets it before the first batch */
    const uint32_t *node_of_rank; /* the node of each rank of the world, 0, 1, …; NULL: not known */
    uint32_t local_world;         /* ranks of this job that open the same loader on this machine; 0: not known */
    /* Before the first batch, the machine's agent compares loaders of different ranks that have the same text here; if
     * they differ, all of them fail. NULL: no comparison. */
    const char *job;
    uint32_t last;     /* enum leat_last */
    uint32_t on_error; /* enum leat_on_error */
    bool shuffle;
    bool seed_given; /* false: a restored state sets the seed */
    bool anonymous;  /* do not sign requests, whatever keys there are */
    uint64_t seed;
    uint32_t window;     /* chunks; 0: what a restored state says, else the dataset's default */
    uint64_t epoch;      /* to begin with */
    uint64_t ram;        /* the agent's budget for chunks in bytes; 0: what it has, or a default */
    uint32_t threads;    /* the agent's, for preparing samples; 0: what it has, or one per core */
    uint32_t slots;      /* batches in the ring, including those you hold; 0: 4 */
    uint64_t timeout_ns; /* how long any call waits; 0: 10 minutes */
    uint64_t linger_ns;  /* how long a new agent stays after its last loader; 0: the default (5 s, under Slurm none) */
    const char *scope;   /* which agent; NULL: LEAT_SCOPE, else the Slurm job, else "default" */
    const char *agent;   /* path of the leat command; NULL: LEAT_AGENT, else next to this library, else in PATH */
    const char *endpoint_url; /* of an S3 server, and below: NULL means what the environment and ~/.aws say */
    const char *region;
    const char *profile;
    bool (*stop)(void *user); /* asked several times a second by waiting calls; true ends them with LEAT_CANCELLED */
    void *stop_user;
    /* The agent's cache on disk: its folder, and how much of the disk it may use. NULL and 0: what the agent has, which
     * is no cache unless LEAT_CACHE_DIR or LEAT_CACHE asks for one. Each has a default when only the other is given. */
    const char *cache_dir;
    uint64_t cache;
    /* Called with one line of text that says why a call has been waiting for 5, 10, 20, 40 … seconds, on the thread
     * that waits. It must not call the loader. */
    void (*warn)(void *user, const char *text);
    void *warn_user;
    uint32_t purpose; /* enum leat_purpose */
    uint32_t share;   /* enum leat_sharing */
    /* What the order counts: "samples", or blocks of a token dataset: "blocks=2048 shift=1" (docs/tokens.md). NULL:
     * samples. */
    const char *view;
    /* Several datasets in proportion, instead of `url`: JSON, docs/mix.md. */
    const char *mix;
    uint64_t epoch_size; /* samples of all ranks in an epoch; 0: as many as there are */
    /* Where a new agent serves its metrics: "127.0.0.1:9100", or only a port. NULL: what LEAT_METRICS says, else
     * nowhere (docs/sight.md). */
    const char *metrics;
    const char *name; /* what leat top, metrics and traces call this loader; NULL: the end of the dataset's address */
    /* The machines of the job, which fetch from each other before they ask the bucket: a text that leat_loader_confer()
     * has made on one of them, the same on all (docs/job.md). NULL: each fetches for itself. */
    const char *members;
    /* What random operations are drawn from, instead of `seed`: jobs of one machine with the same order and draws of
     * their own decode each picture once for all of them (docs/share.md). */
    uint64_t draw_seed;
    bool draw_seed_given; /* false: a restored state says, else `seed` */
};

/* The settings by name, so that front ends need no list of their own. */
enum leat_setting_type {
    LEAT_SETTING_NUMBER = 1,
    LEAT_SETTING_FLAG = 2, /* "true" or "false" */
    LEAT_SETTING_TEXT = 3,
    LEAT_SETTING_SIZE = 4,     /* "2gb", or bytes */
    LEAT_SETTING_DURATION = 5, /* "50ms", or nanoseconds with "ns" */
    LEAT_SETTING_CHOICE = 6
};

struct leat_setting {
    size_t size;      /* of this struct */
    const char *name; /* "batch_size" */
    uint32_t type;    /* enum leat_setting_type */
    uint64_t least;   /* of a number */
    uint64_t most;
    const char *choices; /* separated by spaces: "drop pad short" */
    const char *help;    /* one sentence */
};

LEAT_API size_t leat_loader_settings(void); /* how many there are */
LEAT_API leat_status leat_loader_setting(size_t i, struct leat_setting *out, struct leat_error *err);

/* Sets one by name. Texts are borrowed: they must stay valid until the loader is open. The error for an unknown name
 * suggests a known one. */
LEAT_API leat_status leat_loader_set(struct leat_loader_opts *opts, const char *name, const char *value,
                                     struct leat_error *err);

/* Checks the settings and names everything that is wrong in one sentence; leat_loader_open() does the same. Does not
 * look at URL and outputs. */
LEAT_API leat_status leat_loader_check(const struct leat_loader_opts *opts, struct leat_error *err);

LEAT_API leat_status leat_loader_open(const struct leat_loader_opts *opts, struct leat_loader **out,
                                      struct leat_error *err);
LEAT_API void leat_loader_close(struct leat_loader *loader); /* batches still held stay valid; NULL is allowed */

/* Sets rank and world if the options did not, or changes them. To be called before the first batch. */
LEAT_API leat_status leat_loader_join(struct leat_loader *loader, uint32_t rank, uint32_t world,
                                      const uint32_t *node_of_rank, struct leat_error *err);

/* The machines of a job fetch from each other (docs/job.md). confer() asks the agent of this machine, in JSON, for an
 * address that it could serve at, for the members of a job and their secrets, or to serve them; the caller frees the
 * answer. share() tells the loader the members: before the first batch, on every rank the same. */
LEAT_API leat_status leat_loader_confer(struct leat_loader *loader, const char *ask, char **answer,
                                        struct leat_error *err);
LEAT_API leat_status leat_loader_share(struct leat_loader *loader, const char *members, struct leat_error *err);

/* Everything that must be the same on all ranks, as JSON: dataset, view, seed, window, batch, world, cursor, …; opens
 * the loader if necessary. The caller frees it. compare() names what differs between two of them. */
LEAT_API leat_status leat_loader_agreement(struct leat_loader *loader, char **out, struct leat_error *err);
LEAT_API leat_status leat_loader_compare(const char *mine, const char *theirs, const char *who, struct leat_error *err);

/* Begins a pass over an epoch. After a state was restored or seek() called, the pass begins there; after set_epoch(),
 * at the beginning of that epoch; after a pass that ended or was left early, with the next epoch; after an error, where
 * it happened. */
LEAT_API leat_status leat_loader_begin(struct leat_loader *loader, struct leat_error *err);

/* The next batch, or NULL in *out at the end of the epoch; the call after that begins the next epoch. Release every
 * batch: it occupies a slot of the ring until then. */
LEAT_API leat_status leat_loader_next(struct leat_loader *loader, struct leat_batch **out, struct leat_error *err);

/* next() in two steps, for programs that convert a batch before anybody has it, where the conversion can fail or be
 * interrupted. peek() returns the next batch but leaves the loader where it is: epoch() and state() do not change
 * before accept(). Without accept(), the next call returns the same batch again. Either way the caller releases what it
 * got. accept() fails with LEAT_INVALID if there is no such batch: peek() returned NULL, or the loader was moved since.
 */
LEAT_API leat_status leat_loader_peek(struct leat_loader *loader, struct leat_batch **out, struct leat_error *err);
LEAT_API leat_status leat_loader_accept(struct leat_loader *loader, struct leat_error *err);

/* Whether next() would return at once. */
LEAT_API bool leat_loader_ready(const struct leat_loader *loader);

/* Whether batches that were not released occupy all slots, so that next() has nowhere to take a batch from. The one
 * that keeps batches asks after next(), and makes a copy of the last one. */
LEAT_API bool leat_loader_full(const struct leat_loader *loader);

LEAT_API uint64_t leat_loader_batches(const struct leat_loader *loader);    /* in a whole epoch; 0: no world yet */
LEAT_API uint64_t leat_loader_samples(const struct leat_loader *loader);    /* in an epoch, of all ranks */
LEAT_API uint64_t leat_loader_epoch(const struct leat_loader *loader);      /* of the next batch */
LEAT_API const char *leat_loader_version(const struct leat_loader *loader); /* the dataset's content id: 64 digits */

/* Goes to the beginning of an epoch; inside that epoch, unless a state restored its end, it changes nothing. */
LEAT_API leat_status leat_loader_set_epoch(struct leat_loader *loader, uint64_t epoch, struct leat_error *err);

/* Goes to a position (a number of samples, of all ranks together) in an epoch. */
LEAT_API leat_status leat_loader_seek(struct leat_loader *loader, uint64_t epoch, uint64_t position,
                                      struct leat_error *err);

/* The state after the last batch that next() returned: JSON, the same on every rank, which the caller frees. restore()
 * accepts a state that fits and refuses others, naming what differs; the state sets version, seed and window if the
 * options do not. */
LEAT_API leat_status leat_loader_state(struct leat_loader *loader, char **out, struct leat_error *err);
LEAT_API leat_status leat_loader_restore(struct leat_loader *loader, const char *state, struct leat_error *err);

/* What has happened, as JSON; the caller frees it with free(). */
LEAT_API leat_status leat_loader_stats(struct leat_loader *loader, char **out, struct leat_error *err);

/* The main numbers over time: lists under the same names, and "t", seconds since 1970. next() records the points, at
 * first one per second; when there are too many, every second one is dropped. JSON; the caller frees it with free(). */
LEAT_API leat_status leat_loader_series(struct leat_loader *loader, char **out, struct leat_error *err);

/* Types of values. The numbers are part of the ABI; they are in the order in which types were added. */
enum leat_dtype_code {
    LEAT_U8 = 1,
    LEAT_I64 = 2,
    LEAT_F32 = 3,
    LEAT_F16 = 4,
    LEAT_BF16 = 5,
    LEAT_I8 = 6,
    LEAT_I16 = 7,
    LEAT_U16 = 8,
    LEAT_I32 = 9,
    LEAT_U32 = 10,
    LEAT_U64 = 11,
    LEAT_F64 = 12,
    LEAT_BOOL = 13 /* a byte, 0 or 1 */
};

LEAT_API const char *leat_dtype_name(uint32_t dtype); /* "float32"; "unknown" */

#define LEAT_DIMS_MAX 8

/* A column of a batch. The memory belongs to the batch. */
struct leat_column {
    size_t size; /* sizeof(struct leat_column): set it before every call, which leaves it alone */
    const char *name;
    uint32_t kind;                /* enum leat_output_kind */
    uint32_t dtype;               /* enum leat_dtype_code */
    uint32_t dims_n;              /* of one sample: 3 for images, 0 for numbers */
    uint32_t reserved;            /* 0 */
    uint64_t dims[LEAT_DIMS_MAX]; /* row by row; 0 from dims_n on */
    uint64_t stride;              /* bytes from one sample to the next; 0 for ragged columns */
    const void *data;
    uint64_t bytes;
    const uint64_t *ends; /* ragged: sample i is data[ends[i-1] … ends[i]), with 0 for ends[-1] */
    /* Ragged columns of arrays have 0 in `dims` for each dimension that varies. If two or more vary: their sizes, that
     * many numbers for each sample. NULL: at most one varies, and its size follows from the bytes. */
    const uint64_t *shapes;
};

LEAT_API uint32_t leat_batch_samples(const struct leat_batch *batch);
LEAT_API size_t leat_batch_columns(const struct leat_batch *batch);
/* Fills in *out, whose size must be set; fields that this library does not know become zero. */
LEAT_API leat_status leat_batch_column(const struct leat_batch *batch, size_t i, struct leat_column *out,
                                       struct leat_error *err);
LEAT_API uint64_t leat_batch_epoch(const struct leat_batch *batch);
LEAT_API uint64_t leat_batch_began(const struct leat_batch *batch);    /* in the order, before this batch */
LEAT_API uint64_t leat_batch_position(const struct leat_batch *batch); /* in the order, after this batch */

/* The state after this batch: what leat_loader_state() returned when this was the last batch taken. Code that reads
 * ahead saves the state of the batch that was used last. JSON; the caller frees it with free(). */
LEAT_API leat_status leat_batch_state(const struct leat_batch *batch, char **out, struct leat_error *err);

/* A copy of the batch in memory of its own, which occupies no slot and is released like any batch (though not after an
 * event). Columns of more than `most` bytes are left out: their data, ends and shapes are NULL. *out is NULL when none
 * is that small. The batch itself stays as it is. */
LEAT_API leat_status leat_batch_copy(const struct leat_batch *batch, uint64_t most, struct leat_batch **out,
                                     struct leat_error *err);

/* Memory that batches lie in: the ring of a loader, which holds many of them one after the other, or the memory of one
 * unusually large batch. */
struct leat_memory {
    size_t size; /* sizeof(struct leat_memory) */
    uint64_t id; /* of the ring; no other one of this process has it. 0: it is one batch's memory */
    void *data;  /* where it is mapped; columns and their ends lie in it */
    uint64_t bytes;
    int32_t fd;        /* of the ring, for other processes to map it; it stays the library's. -1: there is none */
    uint32_t reserved; /* 0 */
};

/* The memory that the bytes of column i lie in; that of the number of columns is the ring. It stays until the loader
 * and all its batches are gone; a loader that connects to its agent again has another one. */
LEAT_API leat_status leat_batch_memory(const struct leat_batch *batch, size_t i, struct leat_memory *out,
                                       struct leat_error *err);

/* Has `call` called before the ring that this batch lies in is unmapped, on the thread that lets go of it last: a
 * program that has registered the memory with a device takes that back there. One call per ring: LEAT_EXISTS for a
 * second one. In the child of a fork it is not called. */
LEAT_API leat_status leat_batch_before_unmap(struct leat_batch *batch,
                                             void (*call)(void *user, void *data, uint64_t bytes), void *user,
                                             struct leat_error *err);

/* From any thread, also after the loader was closed. */
LEAT_API void leat_batch_release(struct leat_batch *batch); /* NULL is allowed */

/* Releases the batch once others have finished with its memory, such as a copy to a GPU that is still running: done()
 * says whether they have. From any thread, also after the loader was closed. On success the batch no longer belongs to
 * the caller, who must not use it. On failure it still does.
 *
 * done() is called in this call, in later calls of leat_loader_next() and leat_loader_ready() (while next() waits,
 * every millisecond) and in releases of other batches of the loader, on the thread that makes them. It is never called
 * by two threads at once for one batch, and not again after it has returned true. `user` must stay valid until then.
 * done() must return at once and must not call the loader. leat_loader_close() waits up to 10 seconds for what is left;
 * memory whose event has not happened by then stays mapped, so that nothing else can take the place that a device still
 * reads. */
LEAT_API leat_status leat_batch_release_after(struct leat_batch *batch, bool (*done)(void *user), void *user,
                                              struct leat_error *err);

/* The same, once `fd` (an eventfd, a pipe, a sync file, …) can be read from or its other end was closed. Nothing is
 * read from it, so one descriptor can serve several batches. The library keeps a duplicate: the caller may close its
 * own at once. */
LEAT_API leat_status leat_batch_release_after_fd(struct leat_batch *batch, int fd, struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
