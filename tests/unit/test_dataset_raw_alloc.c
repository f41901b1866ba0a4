/* Memory runs out at every single allocation of making samples of raw objects, and of indexing them: a clean error each
 * time, nothing leaked, nothing published. */

#include "dataset/cut.h"
#include "dataset/index_origin.h"
#include "dataset/listing_save.h"
#include "dataset/raw_origin.h"
#include "fail_alloc.h"
#include "store_bench.h"
#include "unit.h"

static char prefix[] = "d/";
static char url[] = "s3://b/d";
static const struct leat_home home = {.prefix = prefix, .url = url};

static leat_status fill(struct leat_listing *l, struct leat_error *err)
{
    leat_status rc = leat_listing_begin(l, &home, 1, err);
    for (int i = 0; rc == LEAT_OK && i < 40; i++) {
        char key[32];
        snprintf(key, sizeof key, "d/c%d/%d.%s", i / 2 % 3, i / 2, i % 2 ? "txt" : "jpg");
        rc = leat_listing_add(l, key, 10, "\"e\"", err);
    }
    if (rc == LEAT_OK) {
        l->home_ends[0] = l->n;
        rc = leat_listing_finish(l, err);
    }
    return rc;
}

static leat_status group(void *user, struct leat_error *err)
{
    static const char csv[] = "path,n,f,t\nc0/0,1,0.5,x\nc1/1.jpg,2,1,\"y\"\n";
    static const char jsonl[] = "{\"path\": \"c0/0\", \"n\": 1, \"t\": \"x\"}\n{\"path\": \"c1/1\", \"o\": [1]}\n";
    bool lines = *(const bool *)user;
    struct leat_manifest_opts about = {.what = "m", .format = lines ? LEAT_MANIFEST_JSONL : LEAT_MANIFEST_CSV};
    struct leat_manifest m = {0};
    struct leat_raw_opts opts = {.grouped = true, .manifest = &m, .label_regex = "c(\\d)"};
    struct leat_cut_opts how = {.chunk_bytes = 4096};
    struct leat_cut cut = {0};
    struct leat_raw_counts counts;
    struct leat_listing l = {0};
    struct leat_origin *o = NULL;
    leat_status rc =
        leat_manifest_read(lines ? jsonl : csv, lines ? sizeof jsonl - 1 : sizeof csv - 1, &about, &m, err);
    if (rc == LEAT_OK)
        rc = fill(&l, err);
    if (rc == LEAT_OK)
        rc = leat_origin_raw_open(&l, &opts, &counts, &o, err);
    else
        leat_listing_close(&l);
    if (rc == LEAT_OK)
        rc = leat_cut_make(o, &how, &cut, err);
    leat_cut_free(&cut);
    leat_origin_close(o);
    leat_manifest_close(&m);
    return rc;
}

TEST(groups_and_manifests)
{
    for (int lines = 0; lines < 2; lines++) {
        bool user = lines;
        assert_true(fail_alloc_each(group, &user) > 20);
    }
}

static leat_status save(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_saved_head head = {0};
    struct leat_saved_page page = {.end = 40, .after = "x"};
    struct leat_saved s = {0};
    struct leat_listing l = {0};
    struct leat_buf out;
    leat_buf_init(&out, 1 << 20);
    leat_status rc = fill(&l, err);
    if (rc == LEAT_OK)
        rc = leat_saved_write(&l, &head, &page, 1, &out, err);
    if (rc == LEAT_OK)
        rc = leat_saved_read(out.data, out.len, &s, err);
    leat_saved_close(&s);
    leat_listing_close(&l);
    leat_buf_free(&out);
    return rc;
}

TEST(saved_listings)
{
    assert_true(fail_alloc_each(save, NULL) > 10);
}

struct places {
    struct leat_home from;
    struct leat_home to;
};

/* Lists a real folder, indexes it, and leaves it to the last step to publish. */
static leat_status index_folder(void *user, struct leat_error *err)
{
    struct places *p = user;
    struct leat_listing_opts listing = {.threads = 1, .to = &p->to};
    struct leat_raw_opts opts = {.labels = LEAT_LABELS_AUTO};
    struct leat_index_origin_opts how = {.cut = {.chunk_bytes = 4096}, .threads = 1, .publish = {.replace = true}};
    struct leat_index_result result;
    struct leat_raw_counts counts;
    struct leat_cut cut = {0};
    struct leat_listing l = {0};
    struct leat_origin *o = NULL;
    leat_status rc = leat_listing_open(&p->from, 1, &listing, &l, err);
    if (rc == LEAT_OK)
        rc = leat_origin_raw_open(&l, &opts, &counts, &o, err);
    if (rc == LEAT_OK)
        rc = leat_cut_make(o, &how.cut, &cut, err);
    if (rc == LEAT_OK)
        rc = leat_index_origin(o, &cut, &p->to, &how, &result, err);
    leat_cut_free(&cut);
    leat_origin_close(o);
    return rc;
}

TEST(folders)
{
    char path[64];
    char data[64];
    struct places p = {0};
    struct leat_store_opts opts = {0};
    struct leat_error err;
    const char *folder = folder_make(path);
    struct leat_store *files = bench_open_files();
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "in/c%d/%d.txt", i % 2, i);
        snprintf(data, sizeof data, "file %d", i);
        assert_ok(leat_store_put(files, path_in(folder, name), data, strlen(data), NULL, &err), err);
    }
    assert_ok(leat_home_open(path_in(folder, "in"), &opts, &p.from, &err), err);
    assert_ok(leat_home_open(path_in(folder, "out"), &opts, &p.to, &err), err);
    assert_true(fail_alloc_each(index_folder, &p) > 40);
    leat_home_close(&p.from);
    leat_home_close(&p.to);
    leat_store_close(files);
    folder_remove(folder);
}
