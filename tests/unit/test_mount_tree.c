/* The catalog of a mount: which keys are paths, how they are sorted, and that every file is found where it should be.
 */
#include "mount/path.h"
#include "mount/table.h"
#include "mount/tree.h"
#include "unit.h"

TEST(keys_that_lead_out_or_cannot_be_names_are_no_paths)
{
    char longest[LEAT_PATH_MAX + 2];
    static const struct {
        const char *key;
        size_t n;
    } bad[] = {{"", 0},     {"/a", 2},   {"a/", 2},    {"a//b", 4}, {".", 1},      {"..", 2},
               {"../a", 4}, {"a/..", 4}, {"a/./b", 5}, {"a\0b", 3}, {"a/../b", 6}, {"/", 1}};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(leat_path_good(bad[i].key, bad[i].n));
    assert_true(leat_path_good("...", 3));
    assert_true(leat_path_good(".a/b..", 6));
    assert_true(leat_path_good("\xff\n/ ", 4));
    memset(longest, 'x', sizeof longest);
    assert_true(leat_path_good(longest, 255));
    assert_false(leat_path_good(longest, 256));
    for (size_t i = 100; i < sizeof longest; i += 100)
        longest[i] = '/';
    assert_true(leat_path_good(longest, LEAT_PATH_MAX));
    assert_false(leat_path_good(longest, LEAT_PATH_MAX + 1));
}

static int order(const char *a, const char *b)
{
    int there = leat_path_compare(a, strlen(a), b, strlen(b));
    int back = leat_path_compare(b, strlen(b), a, strlen(a));
    assert_true((there < 0) == (back > 0));
    return there < 0 ? -1 : there > 0;
}

TEST(what_lies_in_a_folder_follows_the_name_of_the_folder)
{
    assert_int_equal(order("a", "a/b"), -1);
    assert_int_equal(order("a/b", "a-b"), -1);
    assert_int_equal(order("a/\x01", "a\x01"), -1);
    assert_int_equal(order("abcdefgh/x", "abcdefgh-x"), -1); /* the eighth byte and the ninth */
    assert_int_equal(order("abcdefgX", "abcdefg/"), 1);
    assert_int_equal(order("\x7f", "\xff"), -1);
    assert_int_equal(order("a", "a"), 0);
    assert_true(leat_path_below("a", 1, "a/b", 3));
    assert_false(leat_path_below("a", 1, "a-b", 3));
    assert_false(leat_path_below("a", 1, "a", 1));
}

struct refused {
    unsigned same;
    unsigned folder;
    uint64_t samples; /* the sum of their numbers */
};

static leat_status refuse(void *user, enum leat_tree_why why, const struct leat_tree_file *file,
                          const struct leat_tree_file *other, struct leat_error *err)
{
    struct refused *r = user;
    (void)err;
    assert_true(other->path_n > 0);
    r->same += why == LEAT_TREE_SAME;
    r->folder += why == LEAT_TREE_FOLDER;
    r->samples += file->sample;
    return LEAT_OK;
}

static struct leat_tree *make(const char *const *paths, size_t n, struct refused *r)
{
    struct leat_tree *t = NULL;
    struct leat_error err;
    assert_ok(leat_tree_open(&t, &err), err);
    for (size_t i = 0; i < n; i++) {
        struct leat_tree_file f = {
            .path = paths[i], .path_n = strlen(paths[i]), .sample = i, .bytes = (uint32_t)(i + 1)};
        assert_ok(leat_tree_add(t, &f, &err), err);
    }
    assert_ok(leat_tree_build(t, refuse, r, &err), err);
    return t;
}

static uint64_t walk(const struct leat_tree *t, const char *path)
{
    uint64_t ino = LEAT_TREE_ROOT;
    while (ino && *path) {
        size_t n = strcspn(path, "/");
        assert_true(leat_tree_is_folder(t, ino));
        uint64_t child = leat_tree_find(t, ino, path, n);
        if (child)
            assert_int_equal(leat_tree_parent(t, child), ino);
        ino = child;
        path += n + (path[n] == '/');
    }
    return ino;
}

TEST(every_file_is_found_by_its_path)
{
    static const char *const paths[] = {"b/c/d/1", "a", "b/2", "b-c/3", "b.c", "b/c/4", "z/y/x/w/v", "b/c/d/0", "c"};
    struct refused r = {0};
    struct leat_tree *t = make(paths, COUNT(paths), &r);
    assert_int_equal(leat_tree_files(t), COUNT(paths));
    assert_int_equal(leat_tree_folders(t), 9);
    assert_int_equal(r.same + r.folder, 0);
    for (size_t i = 0; i < COUNT(paths); i++) {
        uint64_t ino = walk(t, paths[i]);
        assert_true(ino && leat_tree_has(t, ino) && !leat_tree_is_folder(t, ino));
        assert_int_equal(leat_tree_file(t, ino).sample, i);
        assert_int_equal(leat_tree_file(t, ino).bytes, i + 1);
    }
    assert_int_equal(walk(t, "b/c/5"), 0);
    assert_int_equal(walk(t, "b/"), walk(t, "b"));
    assert_int_equal(walk(t, "bb"), 0);
    assert_int_equal(leat_tree_children(t, LEAT_TREE_ROOT), 6); /* a b b-c b.c c z */
    assert_int_equal(leat_tree_subfolders(t, LEAT_TREE_ROOT), 3);
    assert_int_equal(leat_tree_parent(t, LEAT_TREE_ROOT), LEAT_TREE_ROOT);
    assert_false(leat_tree_has(t, 0));
    assert_false(leat_tree_has(t, LEAT_TREE_ROOT + 9 + COUNT(paths)));
    leat_tree_close(t);
}

TEST(numbers_do_not_depend_on_the_order_of_adding)
{
    static const char *const one[] = {"a/b", "a/c", "d", "e/f/g"};
    static const char *const other[] = {"e/f/g", "d", "a/c", "a/b"};
    struct refused r = {0};
    struct leat_tree *s = make(one, COUNT(one), &r);
    struct leat_tree *t = make(other, COUNT(other), &r);
    for (size_t i = 0; i < COUNT(one); i++)
        assert_int_equal(walk(s, one[i]), walk(t, one[i]));
    assert_int_equal(walk(s, "e/f"), walk(t, "e/f"));
    leat_tree_close(s);
    leat_tree_close(t);
}

TEST(of_one_path_the_first_sample_stays_and_a_folder_wins_over_a_file)
{
    static const char *const paths[] = {"x/a/b", "x/a", "q", "q", "q", "x/a", "x/a-b", "y"};
    struct refused r = {0};
    struct leat_tree *t = make(paths, COUNT(paths), &r);
    assert_int_equal(r.same, 3);
    assert_int_equal(r.folder, 1);
    assert_int_equal(r.samples, 3 + 4 + 5 + 1);
    assert_int_equal(leat_tree_files(t), 4);
    assert_int_equal(leat_tree_file(t, walk(t, "q")).sample, 2);
    assert_true(leat_tree_is_folder(t, walk(t, "x/a")));
    assert_int_equal(leat_tree_file(t, walk(t, "x/a/b")).sample, 0);
    assert_int_equal(leat_tree_children(t, walk(t, "x")), 2);
    leat_tree_close(t);
}

TEST(an_empty_tree_has_a_root)
{
    struct refused r = {0};
    struct leat_tree *t = make(NULL, 0, &r);
    assert_int_equal(leat_tree_folders(t), 1);
    assert_int_equal(leat_tree_children(t, LEAT_TREE_ROOT), 0);
    assert_int_equal(leat_tree_find(t, LEAT_TREE_ROOT, "a", 1), 0);
    leat_tree_close(t);
}

/* Many files in many folders: listing all gives each of them once, by name. */
static void count(const struct leat_tree *t, uint64_t ino, uint64_t *files, uint64_t *folders)
{
    size_t before_n = 0;
    const char *before = NULL;
    (*folders)++;
    for (uint64_t i = 0; i < leat_tree_children(t, ino); i++) {
        uint64_t child = leat_tree_child(t, ino, i);
        size_t n;
        const char *name = leat_tree_name(t, child, &n);
        assert_true(i == 0 || leat_path_compare(before, before_n, name, n) < 0);
        assert_int_equal(leat_tree_find(t, ino, name, n), child);
        before = name;
        before_n = n;
        if (leat_tree_is_folder(t, child))
            count(t, child, files, folders);
        else
            (*files)++;
    }
}

TEST(listing_gives_each_of_many_files_once)
{
    enum { N = 20000 };
    struct leat_tree *t = NULL;
    struct leat_error err;
    struct refused r = {0};
    uint64_t files = 0;
    uint64_t folders = 0;
    assert_ok(leat_tree_open(&t, &err), err);
    for (uint32_t i = 0; i < N; i++) {
        char path[60];
        uint32_t k = (uint32_t)((uint64_t)i * 7919 % N);
        snprintf(path, sizeof path, "p%u/%s%u/f%u.jpg", k % 7, k % 3 ? "" : "q/", k % 101, k);
        struct leat_tree_file f = {.path = path, .path_n = strlen(path), .sample = i};
        assert_ok(leat_tree_add(t, &f, &err), err);
    }
    assert_ok(leat_tree_build(t, refuse, &r, &err), err);
    count(t, LEAT_TREE_ROOT, &files, &folders);
    assert_int_equal(files, N);
    assert_int_equal(folders, leat_tree_folders(t));
    assert_int_equal(r.same + r.folder, 0);
    leat_tree_close(t);
}

TEST(a_table_without_a_place_says_where_it_wanted_to_be)
{
    struct leat_table t = {0};
    struct leat_error err;
    void *at;
    const char *given = getenv("TMPDIR");
    char *before = given ? strdup(given) : NULL;
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_fails(leat_table_add(&t, 1, &at, &err), err, LEAT_NOT_FOUND, "/nowhere/at/all");
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
    leat_table_close(&t);
    assert_fails(leat_table_add(&t, UINT64_MAX, &at, &err), err, LEAT_LIMIT, "too large");
}
