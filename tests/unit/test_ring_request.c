/* The request that opens a loader, and the table of settings it is made of. */
#include "ring/agreement.h"
#include "ring/request.h"
#include "ring/settings.h"
#include "ring/wire.h"
#include "unit.h"

/* Every setting gets through the wire: by name into the struct, over, and back the same. */
TEST(every_setting_crosses_the_wire)
{
    struct leat_loader_opts o = {.size = sizeof o};
    struct leat_request given = {.url = "/data/x"};
    struct leat_request back;
    struct leat_error err;
    for (size_t i = 0; i < leat_loader_settings(); i++) {
        struct leat_setting s = {.size = sizeof s};
        char value[32];
        assert_int_equal(leat_loader_setting(i, &s, &err), LEAT_OK);
        assert_non_null(s.help);
        if (s.type == LEAT_SETTING_NUMBER)
            snprintf(value, sizeof value, "%llu", (unsigned long long)s.most);
        else if (s.type == LEAT_SETTING_FLAG)
            snprintf(value, sizeof value, "true");
        else if (s.type == LEAT_SETTING_CHOICE)
            snprintf(value, sizeof value, "%s", strrchr(s.choices, ' ') + 1);
        else if (s.type == LEAT_SETTING_DURATION)
            snprintf(value, sizeof value, "3s");
        else
            snprintf(value, sizeof value, "%s", s.type == LEAT_SETTING_SIZE ? "7kib" : "text");
        char *kept = strdup(value); /* texts are borrowed */
        assert_int_equal(leat_loader_set(&o, s.name, kept, &err), LEAT_OK);
        if (s.type != LEAT_SETTING_TEXT)
            free(kept);
    }
    assert_true(o.seed_given);
    assert_int_equal(o.ram, 7168);
    assert_int_equal(o.cache, 7168);
    assert_true(o.timeout_ns == 3000000000ull);
    assert_int_equal(o.last, LEAT_LAST_SHORT);
    given.opts = o;
    assert_int_equal(leat_request_copy(&given, &back, &err), LEAT_OK);
    for (size_t i = 0; i < leat_loader_settings(); i++) {
        struct leat_setting s = {.size = sizeof s};
        leat_loader_setting(i, &s, &err);
    }
    const char *const theirs[] = {o.version,   o.job,  o.scope, o.agent,   o.endpoint_url, o.region, o.profile,
                                  o.cache_dir, o.view, o.mix,   o.metrics, o.name,         o.members};
    const char *const mine[] = {back.opts.version,      back.opts.job,    back.opts.scope,   back.opts.agent,
                                back.opts.endpoint_url, back.opts.region, back.opts.profile, back.opts.cache_dir,
                                back.opts.view,         back.opts.mix,    back.opts.metrics, back.opts.name,
                                back.opts.members};
    for (size_t i = 0; i < COUNT(mine); i++) {
        assert_string_equal(mine[i], theirs[i]);
        assert_ptr_not_equal(mine[i], theirs[i]);
        free((void *)(uintptr_t)theirs[i]);
    }
    /* The rest must be equal to the last bit: what points elsewhere is put out of the way. */
    struct leat_loader_opts a = o, b = back.opts;
    a.version = a.job = a.scope = a.agent = a.endpoint_url = a.region = a.profile = a.url = a.cache_dir = a.view =
        a.mix = a.metrics = a.name = a.members = NULL;
    b.version = b.job = b.scope = b.agent = b.endpoint_url = b.region = b.profile = b.url = b.cache_dir = b.view =
        b.mix = b.metrics = b.name = b.members = NULL;
    assert_memory_equal(&a, &b, sizeof a);
    leat_request_free(&back);
}

TEST(settings_out_of_range_are_refused_by_name)
{
    struct leat_loader_opts o = {.size = sizeof o};
    struct leat_error err;
    static const char *const wrong[][3] = {
        {"batch_size", "0", "batch_size"},
        {"batch_size", "16777217", "batch_size"},
        {"batch_size", "-1", "batch_size"},
        {"batch_size", "2.5", "batch_size"},
        {"world_size", "1048577", "world_size"},
        {"seed", "9223372036854775808", "seed"},
        {"slots", "1", "slots"},
        {"slots", "65", "slots"},
        {"last", "keep", "drop pad short"},
        {"shuffle", "1", "shuffle"},
        {"ram", "much", "ram"},
        {"ram", "0", "ram"},
        {"timeout", "soon", "timeout"},
        {"timeout", "0s", "timeout"},
        {"bacth_size", "8", "'batch_size'"},
        {"seed_given", "true", "seed_given"},
        {"nonsense", "8", "nonsense"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(leat_loader_set(&o, wrong[i][0], wrong[i][1], &err), LEAT_INVALID);
        assert_non_null(strstr(err.text, wrong[i][2]));
    }
    const struct leat_loader_opts untouched = {.size = sizeof o};
    assert_memory_equal(&o, &untouched, sizeof o);
}

TEST(all_that_is_wrong_is_said_at_once)
{
    struct leat_loader_opts o = {.size = sizeof o, .rank = 3, .world = 2, .slots = 1, .last = 9, .seed = UINT64_MAX};
    struct leat_error err;
    assert_int_equal(leat_loader_check(&o, &err), LEAT_INVALID);
    static const char *const words[] = {"rank 3", "slots", "last", "seed", "exactly one"};
    for (size_t i = 0; i < COUNT(words); i++)
        assert_non_null(strstr(err.text, words[i]));
    o = (struct leat_loader_opts){.size = sizeof o, .batch = 1u << 24, .world = 2};
    assert_int_equal(leat_loader_check(&o, &err), LEAT_INVALID);
    assert_non_null(strstr(err.text, "global batch"));
    o = (struct leat_loader_opts){.size = sizeof o, .global_batch = 9, .world = 2};
    assert_int_equal(leat_loader_check(&o, &err), LEAT_INVALID);
    o = (struct leat_loader_opts){.size = sizeof o, .batch = 9, .world = 2, .rank = 1};
    assert_int_equal(leat_loader_check(&o, &err), LEAT_OK);
}

TEST(node_maps_of_any_shape_cross_the_wire)
{
    enum { WORLD = 4096 };
    static uint32_t nodes[WORLD];
    struct leat_error err;
    for (unsigned shape = 0; shape < 4; shape++) {
        for (uint32_t r = 0; r < WORLD; r++)
            nodes[r] = shape == 0 ? r / 8 : shape == 1 ? r % 2 : shape == 2 ? r : r < 4 ? 0 : 1 + (r - 4) / 2;
        struct leat_request r = {.url = "x", .opts = {.world = WORLD, .batch = 1, .node_of_rank = nodes}};
        struct leat_request back;
        assert_int_equal(leat_request_copy(&r, &back, &err), LEAT_OK);
        assert_memory_equal(back.opts.node_of_rank, nodes, sizeof nodes);
        leat_request_free(&back);
    }
}

TEST(node_map_that_does_not_fit_a_message_is_an_error)
{
    enum { WORLD = 1 << 20 };
    struct leat_error err;
    uint32_t *nodes = calloc(WORLD, sizeof *nodes);
    for (uint32_t r = 0; r < WORLD; r++)
        nodes[r] = r % 2;
    struct leat_request r = {.url = "x", .opts = {.world = WORLD, .batch = 1, .node_of_rank = nodes}};
    struct leat_request back;
    assert_int_equal(leat_request_copy(&r, &back, &err), LEAT_LIMIT);
    for (uint32_t i = 0; i < WORLD; i++)
        nodes[i] = i / 256;
    r.opts.node_of_rank = nodes;
    assert_int_equal(leat_request_copy(&r, &back, &err), LEAT_OK);
    leat_request_free(&back);
    free(nodes);
}

TEST(differences_between_ranks_are_all_named)
{
    struct leat_error err;
    const char *mine = "{\"dataset\":\"ab\",\"seed\":0,\"shuffle\":true,\"last\":\"drop\"}";
    assert_int_equal(leat_agreement_compare(mine, mine, "rank 1", &err), LEAT_OK);
    assert_int_equal(leat_agreement_compare(mine, "{\"last\":\"drop\",\"shuffle\":true,\"seed\":0,\"dataset\":\"ab\"}",
                                            "rank 1", &err),
                     LEAT_OK);
    assert_int_equal(
        leat_agreement_compare(mine, "{\"dataset\":\"cd\",\"seed\":7,\"shuffle\":true,\"order\":2}", "rank 3", &err),
        LEAT_INVALID);
    static const char *const words[] = {"rank 3", "dataset cd (here ab)", "seed 7 (here 0)", "last none (here drop)",
                                        "order 2 (here none)"};
    for (size_t i = 0; i < COUNT(words); i++)
        assert_non_null(strstr(err.text, words[i]));
    assert_null(strstr(err.text, "shuffle"));
    assert_int_equal(leat_agreement_compare(mine, "[", "rank 1", &err), LEAT_INVALID);
    assert_int_equal(leat_agreement_compare(mine, "[]", "rank 1", &err), LEAT_INVALID);
}
