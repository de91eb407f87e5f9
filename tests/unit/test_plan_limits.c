/* test_plan_limits.c  Parameters of a plan at and beyond their limits: ranges, budgets, struct
 * sizes, stages, specs that are not finished. */
#include "plan_fixture.h"

#define MAX_TOKENS (UINT64_C(1) << 48) /* of one request */

/* A plan of one full layer in 1000 blocks, if nothing else is said. */
static pkv_plan_params plain(const pkv_spec *layer)
{
    return params_of(layer, 1, 1000 * 65536, 1024);
}

/* ---- ranges ---- */

#define WIDE(member, least, most, part)                                  \
    {                                                                    \
#member, part, offsetof(pkv_plan_params, member), 8, least, most \
    }
#define NARROW(member, least, most)                                         \
    {                                                                       \
#member, #member, offsetof(pkv_plan_params, member), 4, least, most \
    }

static const struct {
    const char *name, *part;
    size_t offset, bytes;
    uint64_t least, most;
} ranges[] = {
    WIDE(max_model_len, 1, MAX_TOKENS, "max_model_len"),
    WIDE(max_num_batched_tokens, 1, MAX_TOKENS, "max_num_batched_tokens"),
    WIDE(max_concurrent_batches, 1, PKV_SPEC_LIMIT, "max_concurrent_batches"),
    WIDE(max_encoder_tokens, 0, MAX_TOKENS, "max_encoder_tokens"),
    WIDE(hisparse_host_bytes, 0, SIZE_LIMIT, "hisparse_host_bytes"),
    WIDE(hisparse_device_rows, 0, PKV_SPEC_LIMIT, "hisparse_device_rows"),
    WIDE(hisparse_index_topk, 1, PKV_SPEC_LIMIT, "hisparse_index_topk"),
    WIDE(prefix_match_unit, 0, PKV_SPEC_LIMIT, "prefix_match_unit"),
    WIDE(retention_interval, 0, PKV_SPEC_LIMIT, "retention_interval"),
    NARROW(tp, 1, 65536),
    NARROW(dcp, 1, 65536),
    NARROW(pcp, 1, 65536),
    NARROW(layout, 0, PKV_N_LAYOUTS - 1),
    NARROW(revision, 0, PKV_REVISION_SEED),
    NARROW(draft_method, 0, PKV_DRAFT_NGRAM),
    NARROW(draft_tokens, 0, 65536),
};

/* Status of a plan in which one parameter has this value. */
static pkv_status plan_with(size_t i, uint64_t value)
{
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    pkv_plan *plan = (pkv_plan *)(uintptr_t)1;
    const uint32_t narrow = (uint32_t)value;
    params.num_blocks_override = SIZE_LIMIT / 65536; /* the longest lengths fit */
    memcpy((char *)&params + ranges[i].offset,
           ranges[i].bytes == 4 ? (const void *)&narrow : (const void *)&value, ranges[i].bytes);
    const pkv_status st = pkv_plan_create(&params, &plan);
    if (st != PKV_OK) {
        assert_null(plan);
        assert_error_text("pkv_plan_create", "");
    }
    pkv_plan_destroy(plan);
    return st;
}

static void every_parameter_is_accepted_at_its_ends_and_refused_beyond(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(ranges); i++) {
        const uint64_t outside[] = {ranges[i].most + 1,
                                    ranges[i].bytes == 8 ? SIZE_LIMIT + 1 : UINT32_MAX,
                                    ranges[i].least > 0 ? ranges[i].least - 1 : 0};
        assert_status(plan_with(i, ranges[i].least), PKV_OK);
        assert_status(plan_with(i, ranges[i].most), PKV_OK);
        for (size_t o = 0; o < (ranges[i].least > 0 ? COUNT(outside) : 2); o++) {
            assert_status(plan_with(i, outside[o]), PKV_E_INVAL);
            assert_error_text("pkv_plan_create", ranges[i].part);
        }
    }
}

static void in_flight_tokens_beyond_the_limit_overflow(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    pkv_limits limits;
    params.max_num_batched_tokens = MAX_TOKENS; /* 2^48 x (2^31-1) */
    params.max_concurrent_batches = PKV_SPEC_LIMIT;
    assert_status(pkv_plan_params_limits(&params, &limits), PKV_E_OVERFLOW);
    assert_error_text("pkv_plan_params_limits", "max_num_batched_tokens");
    pkv_plan *plan = (pkv_plan *)(uintptr_t)1;
    assert_status(pkv_plan_create(&params, &plan), PKV_E_OVERFLOW);
    assert_null(plan);
    params.max_concurrent_batches = (1 << 15) - 1; /* 2^48 x (2^15-1) < 2^63 */
    pkv_plan_destroy(plan_of(&params));
}

/* ---- budgets ---- */

static void a_budget_of_2_to_63_minus_1_is_planned(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full(), full()};
    const pkv_plan_params params = params_of(layers, 3, INT64_MAX, 1024);
    pkv_plan *plan = plan_of(&params);
    const uint64_t blocks = SIZE_LIMIT / (3 * 65536);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, blocks);
    assert_int_equal(pkv_plan_tensor_at(plan, 0, 0)->size, blocks * 3 * 65536);
    assert_int_equal(pkv_plan_tensor_at(plan, 0, 0)->layer_stride, blocks * 65536);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes, blocks * 3 * 65536);
    assert_near((double)pkv_plan_get_summary(plan)->tokens / (double)(blocks * 16), 1, 1e-9);
    pkv_plan_destroy(plan);
}

static void budgets_that_hold_no_block_are_refused(void **state)
{
    (void)state;
    static const int64_t budgets[] = {0, 1, -1, 65535, INT64_MIN, INT64_MIN + 65536, INT64_MIN / 2};
    const pkv_spec layer = full();
    for (size_t i = 0; i < COUNT(budgets); i++) {
        for (uint8_t fit = 0; fit <= 1; fit++) {
            char text[64];
            pkv_plan_params params = params_of(&layer, 1, budgets[i], 1);
            params.auto_fit = fit;
            (void)snprintf(text, sizeof text, "available_bytes %" PRId64 " ", budgets[i]);
            assert_no_plan(&params, PKV_E_VALUE, text);
        }
    }
}

static void a_model_without_a_cache_needs_no_budget(void **state)
{
    (void)state;
    static const int64_t budgets[] = {INT64_MIN, -1, 0, INT64_MAX};
    for (size_t i = 0; i < COUNT(budgets); i++) {
        const pkv_plan_params params = params_of(NULL, 0, budgets[i], 1);
        pkv_plan *plan = plan_of(&params);
        assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 1);
        pkv_plan_destroy(plan);
    }
}

static void overrides_have_the_limits_of_budgets(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    params.num_blocks_override = 0;
    assert_no_plan(&params, PKV_E_VALUE, "available_bytes 0 ");
    params.num_blocks_override = 1;
    assert_no_plan(&params, PKV_E_VALUE, "available_bytes 65536 ");
    params.num_blocks_override = SIZE_LIMIT / 65536; /* 2^47-1 blocks are 2^63-65536 bytes */
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, SIZE_LIMIT / 65536);
    pkv_plan_destroy(plan);
    params.num_blocks_override++;
    assert_no_plan(&params, PKV_E_OVERFLOW, "num_blocks_override");
    params.num_blocks_override = SIZE_LIMIT;
    assert_no_plan(&params, PKV_E_OVERFLOW, "num_blocks_override");
    params.num_blocks_override = SIZE_LIMIT + 1;
    assert_no_plan(&params, PKV_E_INVAL, "num_blocks_override");
}

/* ---- struct sizes ---- */

static void a_caller_of_an_older_header_gets_defaults(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    params.hisparse_index_topk = 0;        /* would be refused */
    params.prefix_match_unit = UINT64_MAX; /* too */
    params.retention_interval = 12345;     /* a default is 0 */
    params.struct_size = offsetof(pkv_plan_params, hisparse_index_topk);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 1000);
    assert_int_equal(pkv_plan_retention_interval(plan), 0);
    pkv_plan_destroy(plan);
}

static void a_struct_without_its_size_is_refused(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    params.struct_size = 0;
    assert_no_plan(&params, PKV_E_INVAL, "struct_size 0");
    params.struct_size = 4;
    assert_no_plan(&params, PKV_E_INVAL, "struct_size 4");
}

static void a_caller_of_a_newer_header_must_not_use_what_is_new(void **state)
{
    (void)state;
    struct {
        pkv_plan_params known;
        uint64_t unknown[2];
    } newer;
    const pkv_spec layer = full();
    memset(&newer, 0, sizeof newer);
    newer.known = plain(&layer);
    newer.known.struct_size = sizeof newer;
    pkv_plan_destroy(plan_of(&newer.known)); /* all zero: not used */
    newer.unknown[1] = UINT64_C(1) << 56;
    assert_no_plan(&newer.known, PKV_E_VERSION, "struct_size");
}

/* ---- missing arguments ---- */

static void missing_arguments_of_plans_are_refused(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    pkv_plan *plan = (pkv_plan *)(uintptr_t)1;
    pkv_limits limits = limits_of(1024, 1);
    uint64_t len;
    assert_status(pkv_plan_create(NULL, &plan), PKV_E_INVAL);
    assert_error_text("pkv_plan_create", "NULL");
    assert_null(plan);
    assert_status(pkv_plan_create(&params, NULL), PKV_E_INVAL);
    assert_status(pkv_plan_params_limits(NULL, &limits), PKV_E_INVAL);
    assert_status(pkv_plan_params_limits(&params, NULL), PKV_E_INVAL);
    assert_status(pkv_estimate_max_model_len(NULL, 1, &limits, 1, &len), PKV_E_INVAL);
    assert_status(pkv_estimate_max_model_len(&layer, 1, NULL, 1, &len), PKV_E_INVAL);
    assert_status(pkv_estimate_max_model_len(&layer, 1, &limits, 1, NULL), PKV_E_INVAL);
    params.layers = NULL;
    assert_no_plan(&params, PKV_E_INVAL, "layers");
    pkv_plan_destroy(NULL);
}

/* "Beginning with the name of the function that failed" (status.h): the one that was called, also
 * where a rule of another one refused. */
static void a_refusal_names_the_function_that_was_called(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    params.max_num_batched_tokens = MAX_TOKENS;
    params.max_concurrent_batches = PKV_SPEC_LIMIT;
    assert_no_plan(&params, PKV_E_OVERFLOW, "max_num_batched_tokens");

    /* page unification: 65536 / 16384 times 16 tokens take 32768 bytes, more than the pad */
    pkv_spec padded = windowed_of(128, 16, 1);
    padded.page_size_padded = 16384;
    const pkv_spec unified[] = {full(), finished(padded)};
    params = params_of(unified, 2, GIB, 1024);
    assert_no_plan(&params, PKV_E_ASSERT, "page_size_padded 16384");

    /* admission: a sharded window under context parallelism */
    const pkv_spec window = windowed(128);
    params = plain(&window);
    params.dcp = 2;
    assert_no_plan(&params, PKV_E_ASSERT, "dcp 2");
}

/* ---- layers and stages ---- */

static void specs_that_are_not_finished_are_refused(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16); /* without V's width */
    pkv_plan_params params = plain(&spec);
    assert_no_plan(&params, PKV_E_INVAL, "layer 0: the spec is not finished");
    spec = shaped(PKV_KIND_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    spec.head_size_v = 0;
    spec.alignment = 1000; /* without its pad */
    assert_no_plan(&params, PKV_E_INVAL, "layer 0: the spec is not finished");
    memset(&spec, 0, sizeof spec);
    assert_no_plan(&params, PKV_E_INVAL, "layer 0: ");
    memset(&spec, 0xff, sizeof spec);
    spec.states = NULL;
    spec.cache_dtype = spec.model_version = spec.mamba_type = NULL;
    assert_no_plan(&params, PKV_E_INVAL, "layer 0: ");
}

static void derived_kinds_are_no_input(void **state)
{
    (void)state;
    pkv_spec spec;
    assert_ok(pkv_spec_init(&spec, PKV_KIND_HISPARSE_RESIDENT));
    spec.block_size = 16;
    spec.page_size = 4096;
    assert_ok(pkv_spec_finish(&spec));
    const pkv_plan_params params = plain(&spec);
    assert_no_plan(&params, PKV_E_INVAL, "hisparse_resident");
}

static void encoders_keep_nothing_to_plan(void **state)
{
    (void)state;
    const pkv_spec spec = finished(shaped(PKV_KIND_ENCODER_ONLY, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    const pkv_plan_params params = plain(&spec);
    assert_no_plan(&params, PKV_E_VALUE, "encoder_only_attention");
}

/* Two full layers on one stage that names these. */
static void assert_stage_refused(const uint32_t *layers, uint32_t n, const char *part)
{
    const pkv_spec specs[] = {full(), full()};
    const pkv_plan_worker worker = {.available_bytes = GIB, .layers = layers, .n_layers = n};
    pkv_plan_params params = params_of(specs, 2, GIB, 1024);
    params.workers = &worker;
    params.n_workers = 1;
    assert_no_plan(&params, PKV_E_INVAL, part);
}

static void stages_name_each_of_their_layers_once(void **state)
{
    (void)state;
    static const uint32_t twice[] = {0, 0}, unknown[] = {0, 2}, many[] = {0, 1, 0};
    static const uint32_t huge[] = {UINT32_MAX};
    assert_stage_refused(twice, 2, "worker 0: layer 0 twice");
    assert_stage_refused(unknown, 2, "worker 0: layer 2 of 2");
    assert_stage_refused(huge, 1, "worker 0: layer 4294967295 of 2");
    assert_stage_refused(many, 3, "worker 0: layers [3]");
    assert_stage_refused(NULL, 1, "worker 0: layers [1]");
    const pkv_spec layer = full();
    pkv_plan_params params = plain(&layer);
    params.n_workers = 1; /* no list */
    assert_no_plan(&params, PKV_E_INVAL, "workers [1]");
}

static void a_layer_may_lie_on_two_stages(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full()};
    static const uint32_t both[] = {0, 1};
    const pkv_plan_worker workers[] = {
        {.available_bytes = 1000 * 65536, .layers = both, .n_layers = 2},
        {.available_bytes = 1000 * 65536, .layers = both, .n_layers = 1}};
    pkv_plan_params params = params_of(layers, 2, 0, 1024);
    params.workers = workers;
    params.n_workers = 2;
    pkv_plan *plan = plan_of(&params);
    assert_groups_on(plan, 0, "(0 1)");
    assert_groups_on(plan, 1, "(0)");
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 500);
    pkv_plan_destroy(plan);
}

static void memory_is_short_before_a_packed_page_is_empty(void **state)
{
    (void)state;
    pkv_spec empty = shaped(PKV_KIND_MLA, 64, 1, 512, PKV_DTYPE_UINT8);
    empty.tokens_per_state.num = 128; /* a block of 64 holds none */
    const pkv_spec layers[] = {finished(shaped(PKV_KIND_MLA, 256, 1, 512, PKV_DTYPE_UINT8)),
                               finished(empty)};
    pkv_plan_params params = params_of(layers, 2, GIB, 16);
    params.layout = PKV_LAYOUT_BLHNC;
    assert_no_plan(&params, PKV_E_ASSERT, "0 bytes");
    params.num_blocks_override = 1; /* the null block alone */
    assert_no_plan(&params, PKV_E_VALUE, "null block");
}

static void pages_that_do_not_unify_are_found_before_a_stride_of_nothing(void **state)
{
    (void)state;
    pkv_spec thin = shaped(PKV_KIND_MLA, 256, 1, 576, PKV_DTYPE_UINT8);
    pkv_spec none = shaped(PKV_KIND_MLA, 24, 1, 576, PKV_DTYPE_UINT8);
    thin.tokens_per_state.num = none.tokens_per_state.num = 128;
    none.stride_rule = PKV_STRIDE_KERNEL_BLOCKS; /* up to 16 tokens: no whole state of 128 */
    none.block_stride_alignment = 16;
    const pkv_spec layers[] = {finished(thin), finished(none),
                               finished(shaped(PKV_KIND_MLA, 256, 1, 132, PKV_DTYPE_UINT8))};
    pkv_plan_params params = params_of(layers, 3, 1048576, 16);
    params.caching = 0;
    assert_no_plan(&params, PKV_E_NOTIMPL, "");
    params = params_of(layers + 1, 1, 1048576, 16);
    assert_no_plan(&params, PKV_E_VALUE, "hold no state");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_accepted_at_its_ends_and_refused_beyond),
        cmocka_unit_test(memory_is_short_before_a_packed_page_is_empty),
        cmocka_unit_test(pages_that_do_not_unify_are_found_before_a_stride_of_nothing),
        cmocka_unit_test(in_flight_tokens_beyond_the_limit_overflow),
        cmocka_unit_test(a_budget_of_2_to_63_minus_1_is_planned),
        cmocka_unit_test(budgets_that_hold_no_block_are_refused),
        cmocka_unit_test(a_model_without_a_cache_needs_no_budget),
        cmocka_unit_test(overrides_have_the_limits_of_budgets),
        cmocka_unit_test(a_caller_of_an_older_header_gets_defaults),
        cmocka_unit_test(a_struct_without_its_size_is_refused),
        cmocka_unit_test(a_caller_of_a_newer_header_must_not_use_what_is_new),
        cmocka_unit_test(missing_arguments_of_plans_are_refused),
        cmocka_unit_test(a_refusal_names_the_function_that_was_called),
        cmocka_unit_test(specs_that_are_not_finished_are_refused),
        cmocka_unit_test(derived_kinds_are_no_input),
        cmocka_unit_test(encoders_keep_nothing_to_plan),
        cmocka_unit_test(stages_name_each_of_their_layers_once),
        cmocka_unit_test(a_layer_may_lie_on_two_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
