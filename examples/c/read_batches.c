/* Reads one epoch of a dataset through Leat's C interface.
 *
 *     read_batches URL [BATCH]
 *
 * Build it against an installed Leat with: cc read_batches.c $(pkg-config --cflags --libs leat) */
#include <inttypes.h>
#include <leat/leat.h>
#include <leat/loader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct leat_error err;
    uint64_t batch_size = 32;
    if (argc < 2) {
        fprintf(stderr, "usage: read_batches URL [BATCH]\n");
        return 2;
    }
    if (argc > 2 && leat_text_size(argv[2], "BATCH", &batch_size, &err) != LEAT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }

    /* What each batch is made of. Ragged outputs, such as keys, have any length; images have one fixed shape, and take
     * a pipeline: .field = "jpg", .pipeline = "random_resized_crop=224 flip=0.5".
     * `size` tells the library which release of a struct the program was built with. */
    const struct leat_output outputs[] = {
        {.size = sizeof *outputs, .name = "index", .kind = LEAT_OUTPUT_INDEX},
        {.size = sizeof *outputs, .name = "key", .kind = LEAT_OUTPUT_KEY},
    };

    /* Everything left out is 0, which means the default. */
    const struct leat_loader_opts opts = {
        .size = sizeof opts,
        .url = argv[1],
        .outputs = outputs,
        .outputs_n = sizeof outputs / sizeof *outputs,
        .global_batch = (uint32_t)batch_size,
        .world = 1,
        .last = LEAT_LAST_SHORT,
        .shuffle = true,
    };

    /* The first loader on a machine starts the agent, which fetches and prepares for all of them. */
    struct leat_loader *loader;
    if (leat_loader_open(&opts, &loader, &err) != LEAT_OK) {
        fprintf(stderr, "cannot open '%s': %s\n", argv[1], err.text);
        return 1;
    }
    printf("%" PRIu64 " samples in %" PRIu64 " batches\n", leat_loader_samples(loader), leat_loader_batches(loader));

    uint64_t seen = 0;
    uint64_t sum = 0;
    for (;;) {
        struct leat_batch *batch;
        if (leat_loader_next(loader, &batch, &err) != LEAT_OK) {
            fprintf(stderr, "%s\n", err.text);
            leat_loader_close(loader);
            return 1;
        }
        if (!batch)
            break; /* the end of the epoch; the next call would begin another */

        struct leat_column index = {.size = sizeof index};
        struct leat_column key = {.size = sizeof key};
        leat_batch_column(batch, 0, &index, NULL);
        leat_batch_column(batch, 1, &key, NULL);
        for (uint32_t i = 0; i < leat_batch_samples(batch); i++)
            sum += (uint64_t)((const int64_t *)index.data)[i];
        if (!seen)
            printf("the first key is %.*s\n", (int)key.ends[0], (const char *)key.data);
        seen += leat_batch_samples(batch);

        /* Until it is released a batch occupies a slot of the ring, and its memory does not change. */
        leat_batch_release(batch);
    }

    /* A state says where the loader is; any loader of this dataset, at any world size, can go on from it. */
    char *state;
    if (leat_loader_state(loader, &state, &err) == LEAT_OK) {
        printf("state: %s\n", state);
        free(state);
    }
    printf("%" PRIu64 " samples seen, numbers add up to %" PRIu64 "\n", seen, sum);
    leat_loader_close(loader);
    return 0;
}
