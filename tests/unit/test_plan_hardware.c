#include "plan/hardware.h"

#include <math.h>

#include "unit.h"

TEST(the_table_has_figures_for_every_row)
{
    for (size_t i = 0; i < leat_plan_accelerator_count; i++) {
        const struct leat_plan_accelerator *a = &leat_plan_accelerators[i];
        assert_true(a->memory_gib > 1 && a->fp32_tflops > 1 && a->tensor_tflops >= a->fp32_tflops);
        assert_true(a->memory_gb_per_s > 100 && a->link_gb_per_s > 1 && a->source[0]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(a->name, leat_plan_accelerators[k].name);
    }
    for (size_t i = 0; i < leat_plan_machine_count; i++) {
        const struct leat_plan_machine *m = &leat_plan_machines[i];
        struct leat_plan_accelerator a;
        assert_true(m->gpus > 0 && m->source[0] && leat_plan_hardware_accelerator(NULL, m->accelerator, &a));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(m->type, leat_plan_machines[k].type);
    }
}

TEST(a_file_adds_to_the_table_and_overrules_it)
{
    static const char text[] = "accelerator,type,gpus,memory_gib,link_gb_per_s,network_gbit_per_s,disk_gb\n"
                               "A100,,,,250,,\nX1,,,96,600,,\n,p4d.24xlarge,,,,200,\nX1,mine,4,512,,100,1000\n";
    struct leat_plan_hardware h = {0};
    struct leat_plan_accelerator a;
    struct leat_plan_machine m;
    struct leat_error err;
    assert_ok(leat_plan_hardware_csv("h.csv", text, strlen(text), &h, &err), err);
    assert_true(leat_plan_hardware_accelerator(&h, "A100", &a) && a.memory_gib == 40 && a.link_gb_per_s == 250);
    assert_string_equal(a.source, "h.csv line 2");
    assert_true(leat_plan_hardware_accelerator(&h, "X1", &a) && a.memory_gib == 96 && isnan(a.fp32_tflops));
    assert_true(leat_plan_hardware_machine(&h, "p4d.24xlarge", &m) && m.network_gbit_per_s == 200 && m.gpus == 8 &&
                m.disk_gb == 8000);
    assert_true(leat_plan_hardware_machine(&h, "mine", &m) && m.gpus == 4 && m.disk_gb == 1000);
    assert_true(leat_plan_hardware_goes_on(&h, "mine", 8, "X1", 4) &&
                !leat_plan_hardware_goes_on(&h, "mine", 8, "X1", 2));
    assert_false(leat_plan_hardware_machine(&h, "yours", &m) || leat_plan_hardware_accelerator(&h, "X2", &a));
    leat_plan_hardware_free(&h);
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"accelerator,colour\nA,red\n", "h.csv line 1: column 'colour' is not known"},
        {"accelerator,memory_gib\n,3\n", "h.csv line 2: accelerator or type is missing"},
        {"accelerator,memory_gib\nA,-3\n", "h.csv line 2: memory_gib is -3"},
        {"accelerator,disk_gb\nA,3\n", "h.csv line 2: disk_gb says nothing about an accelerator"},
        {"type,gpus\nA,1.5\n", "h.csv line 2: gpus is 1.5"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_fails(leat_plan_hardware_csv("h.csv", wrong[i].text, strlen(wrong[i].text), &h, &err), err, LEAT_INVALID,
                     wrong[i].says);
        leat_plan_hardware_free(&h);
    }
}

TEST(attached_gpus_go_on_machines_that_are_not_too_large)
{
    struct leat_plan_machine m;
    assert_true(leat_plan_hardware_goes_on(NULL, "n1-standard-8", 8, "V100", 1));
    assert_false(leat_plan_hardware_goes_on(NULL, "n1-standard-16", 16, "V100", 1));
    assert_false(leat_plan_hardware_goes_on(NULL, "n1-standard-8", 8, "V100", 3));
    assert_false(leat_plan_hardware_goes_on(NULL, "n1-standard-8", 8, "A100", 1));
    assert_true(leat_plan_hardware_goes_on(NULL, "g2-standard-24", 24, "L4", 2));
    assert_true(leat_plan_hardware_machine(NULL, "n1-highmem-8+1xV100", &m) && m.network_gbit_per_s == 16);
}
