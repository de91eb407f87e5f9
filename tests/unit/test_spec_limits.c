/* test_spec_limits.c  Limits of every field of a spec, and sizes that would exceed 2^63-1. */
#include "plan_fixture.h"

/* ---- a valid spec of every kind ---- */

static pkv_spec valid(uint32_t kind)
{
    pkv_spec spec = shaped(kind, 16, 1, 64, PKV_DTYPE_BFLOAT16);
    switch (kind) {
    case PKV_KIND_SLIDING_WINDOW:
    case PKV_KIND_SLIDING_WINDOW_MLA:
    case PKV_KIND_KPOOL_TAIL: spec.sliding_window = 8; break;
    case PKV_KIND_CHUNKED_LOCAL: spec.attention_chunk_size = 8; break;
    case PKV_KIND_RSWA: spec.rswa_window = 8; break;
    case PKV_KIND_MAMBA: spec = recurrent(16); break;
    case PKV_KIND_HISPARSE_HOT:
    case PKV_KIND_HISPARSE_RESIDENT:
        assert_ok(pkv_spec_init(&spec, kind));
        spec.block_size = 16;
        spec.page_size = 4096;
        spec.blocks_per_request = kind == PKV_KIND_HISPARSE_HOT ? 1 : 0;
        break;
    default: break;
    }
    return spec;
}

static void every_kind_has_a_finished_spec(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < PKV_N_KINDS; kind++) {
        pkv_spec spec = valid(kind), again;
        assert_ok(pkv_spec_finish(&spec));
        again = spec;
        assert_ok(pkv_spec_finish(&again)); /* may be called again */
        assert_true(pkv_spec_equal(&again, &spec));
        assert_true(page_of(&spec) > 0);
    }
}

/* ---- numbers ---- */

#define NUMBER(kind, member, zero, most)                                 \
    {                                                                    \
        PKV_KIND_##kind, #member, offsetof(pkv_spec, member), zero, most \
    }

/* Whether 0 is allowed (as "none" or as a number), and the largest value. */
static const struct {
    uint32_t kind;
    const char *name;
    size_t offset;
    bool zero;
    uint64_t most;
} numbers[] = {
    NUMBER(FULL, block_size, false, PKV_SPEC_LIMIT),
    NUMBER(MAMBA, block_size, false, PKV_SPEC_LIMIT),
    NUMBER(FULL, num_kv_heads, false, PKV_SPEC_LIMIT),
    NUMBER(FULL, head_size, false, PKV_SPEC_LIMIT),
    NUMBER(FULL, head_size_v, true, PKV_SPEC_LIMIT),
    NUMBER(FULL, num_head_slots, true, PKV_SPEC_LIMIT),
    NUMBER(FULL, state_content_bytes, true, PKV_SPEC_LIMIT),
    NUMBER(FULL, page_size_padded, true, SIZE_LIMIT),
    NUMBER(MAMBA, page_size_padded, true, SIZE_LIMIT),
    NUMBER(FULL, max_tp_shards, true, PKV_SPEC_LIMIT),
    NUMBER(FULL, sliding_window, true, PKV_SPEC_LIMIT),
    NUMBER(SLIDING_WINDOW, sliding_window, false, PKV_SPEC_LIMIT),
    NUMBER(SLIDING_WINDOW_MLA, sliding_window, false, PKV_SPEC_LIMIT),
    NUMBER(KPOOL_TAIL, sliding_window, false, PKV_SPEC_LIMIT),
    NUMBER(SLIDING_WINDOW, extra_retained_tokens, true, PKV_SPEC_LIMIT),
    NUMBER(FULL, attention_chunk_size, true, PKV_SPEC_LIMIT),
    NUMBER(CHUNKED_LOCAL, attention_chunk_size, false, PKV_SPEC_LIMIT),
    NUMBER(RSWA, rswa_window, false, PKV_SPEC_LIMIT),
    NUMBER(SINK_FULL, sink_len, true, PKV_SPEC_LIMIT),
    NUMBER(MLA, alignment, true, PKV_SPEC_LIMIT),
    NUMBER(SLIDING_WINDOW_MLA, alignment, true, PKV_SPEC_LIMIT),
    NUMBER(MLA, topk_buffer_width, true, PKV_SPEC_LIMIT),
    NUMBER(MLA, storage_block_size, true, PKV_SPEC_LIMIT),
    NUMBER(MAMBA, prefill_checkpoint_alignment, true, PKV_SPEC_LIMIT),
    NUMBER(HISPARSE_HOT, page_size, false, SIZE_LIMIT),
    NUMBER(HISPARSE_HOT, blocks_per_request, false, PKV_SPEC_LIMIT),
    NUMBER(HISPARSE_RESIDENT, page_size, false, SIZE_LIMIT),
};

static void assert_number(size_t i, uint64_t value, bool allowed)
{
    pkv_spec spec = valid(numbers[i].kind), before;
    memcpy((char *)&spec + numbers[i].offset, &value, sizeof value);
    before = spec;
    const pkv_status st = pkv_spec_finish(&spec);
    if (st != (allowed ? PKV_OK : PKV_E_INVAL)) {
        fail_msg("%s: %s %" PRIu64 ": %s", pkv_kind_name(numbers[i].kind), numbers[i].name, value,
                 pkv_status_name(st));
    }
    if (!allowed) {
        assert_error_text("pkv_spec_finish", numbers[i].name);
        assert_memory_equal(&spec, &before, sizeof spec); /* unchanged */
    }
}

static void every_number_has_its_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        assert_number(i, 0, numbers[i].zero);
        assert_number(i, 1, true);
        assert_number(i, PKV_SPEC_LIMIT, true);
        assert_number(i, PKV_SPEC_LIMIT + 1, numbers[i].most > PKV_SPEC_LIMIT);
        assert_number(i, SIZE_LIMIT, numbers[i].most == SIZE_LIMIT);
        assert_number(i, SIZE_LIMIT + 1, false);
        const bool means_default = numbers[i].offset == offsetof(pkv_spec, head_size_v);
        assert_number(i, UINT64_MAX, means_default);
    }
}

static void counts_of_states_have_their_limits(void **state)
{
    (void)state;
    pkv_spec spec = valid(PKV_KIND_MAMBA);
    spec.num_speculative_blocks = spec.num_prefill_checkpoint_blocks = (uint32_t)PKV_SPEC_LIMIT;
    assert_ok(pkv_spec_finish(&spec));
    spec.num_speculative_blocks++;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    spec.num_speculative_blocks = 0;
    spec.num_prefill_checkpoint_blocks++;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    assert_error_text("pkv_spec_finish", "num_prefill_checkpoint_blocks");
}

static pkv_status finish_states(const pkv_state *states, uint32_t n)
{
    pkv_spec spec = recurrent(16);
    spec.states = states;
    spec.n_states = n;
    return pkv_spec_finish(&spec);
}

static void recurrent_states_have_their_limits(void **state)
{
    (void)state;
    pkv_state one = {PKV_DTYPE_UINT8, PKV_STATE_MAX_RANK, {1, 1, 1, 1, 1, 1}}, many[65];
    for (size_t i = 0; i < COUNT(many); i++) {
        many[i] = one;
    }
    assert_ok(finish_states(many, 64));
    assert_status(finish_states(many, 65), PKV_E_INVAL);
    assert_status(finish_states(many, 0), PKV_E_INVAL);
    assert_status(finish_states(NULL, 1), PKV_E_INVAL);
    one.rank = 0;
    assert_ok(finish_states(&one, 1));
    one.rank = PKV_STATE_MAX_RANK + 1;
    assert_status(finish_states(&one, 1), PKV_E_INVAL);
    one.rank = 1;
    one.dims[0] = PKV_SPEC_LIMIT;
    assert_ok(finish_states(&one, 1));
    one.dims[0] = PKV_SPEC_LIMIT + 1;
    assert_status(finish_states(&one, 1), PKV_E_INVAL);
    one.dims[0] = 0;
    assert_status(finish_states(&one, 1), PKV_E_INVAL);
    one = (pkv_state){PKV_DTYPE_NONE, 1, {1}};
    assert_status(finish_states(&one, 1), PKV_E_INVAL);
    one.dtype = PKV_N_DTYPES;
    assert_status(finish_states(&one, 1), PKV_E_INVAL);
}

static void ratios_are_positive_and_come_in_lowest_terms(void **state)
{
    (void)state;
    pkv_spec spec = valid(PKV_KIND_FULL);
    spec.tokens_per_state = (pkv_ratio){0, 1};
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    spec.tokens_per_state = (pkv_ratio){1, 0};
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    assert_error_text("pkv_spec_finish", "tokens_per_state");
    spec.tokens_per_state = (pkv_ratio){6, 24};
    assert_ok(pkv_spec_finish(&spec));
    assert_int_equal(spec.tokens_per_state.num, 1);
    assert_int_equal(spec.tokens_per_state.den, 4);
}

/* ---- enumerations and flags ---- */

static void unknown_numbers_of_enumerations_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind;
        size_t offset;
        uint32_t first_unknown;
    } enums[] = {{PKV_KIND_FULL, offsetof(pkv_spec, kind), PKV_N_KINDS},
                 {PKV_KIND_FULL, offsetof(pkv_spec, dtype), PKV_N_DTYPES},
                 {PKV_KIND_FULL, offsetof(pkv_spec, dtype), PKV_DTYPE_NONE},
                 {PKV_KIND_FULL, offsetof(pkv_spec, kv_quant_mode), PKV_N_QUANT_MODES},
                 {PKV_KIND_MLA, offsetof(pkv_spec, cache_role), PKV_ROLE_INDEXER + 1},
                 {PKV_KIND_FULL, offsetof(pkv_spec, stride_rule), PKV_STRIDE_KERNEL_BLOCKS + 1},
                 {PKV_KIND_MAMBA, offsetof(pkv_spec, mamba_mode), PKV_MAMBA_ALIGN + 1}};
    for (size_t i = 0; i < COUNT(enums); i++) {
        const uint32_t values[] = {enums[i].first_unknown, UINT32_MAX};
        for (size_t v = 0; v < COUNT(values); v++) {
            pkv_spec spec = valid(enums[i].kind);
            memcpy((char *)&spec + enums[i].offset, &values[v], sizeof values[v]);
            assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
            assert_error_text("pkv_spec_finish", "");
        }
    }
    pkv_spec spec;
    assert_status(pkv_spec_init(&spec, PKV_N_KINDS), PKV_E_INVAL);
    assert_error_text("pkv_spec_init", "15");
}

static void flags_are_0_or_1(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind;
        size_t offset;
    } flags[] = {{PKV_KIND_FULL, offsetof(pkv_spec, dcp_sharded)},
                 {PKV_KIND_FULL, offsetof(pkv_spec, is_draft)},
                 {PKV_KIND_FULL, offsetof(pkv_spec, non_causal)},
                 {PKV_KIND_MLA, offsetof(pkv_spec, is_index_group_leader)},
                 {PKV_KIND_MLA, offsetof(pkv_spec, non_causal_multi_token_decode)},
                 {PKV_KIND_SLIDING_WINDOW_MLA, offsetof(pkv_spec, bounded_replay)},
                 {PKV_KIND_MAMBA, offsetof(pkv_spec, tp_replicated)}};
    for (size_t i = 0; i < COUNT(flags); i++) {
        for (int value = 0; value <= 255; value++) {
            pkv_spec spec = valid(flags[i].kind);
            *((unsigned char *)&spec + flags[i].offset) = (unsigned char)value;
            assert_status(pkv_spec_finish(&spec), value <= 1 ? PKV_OK : PKV_E_INVAL);
        }
    }
}

static void stride_rules_need_their_number(void **state)
{
    (void)state;
    pkv_spec spec = valid(PKV_KIND_FULL);
    spec.block_stride_alignment = 1; /* without a rule */
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    spec.stride_rule = PKV_STRIDE_BYTES;
    assert_ok(pkv_spec_finish(&spec));
    spec.block_stride_alignment = 0; /* 0 bytes: the reference's VALUE */
    assert_status(pkv_spec_finish(&spec), PKV_E_VALUE);
    assert_error_text("pkv_spec_finish", "block_stride_alignment");
    spec.stride_rule = PKV_STRIDE_KERNEL_BLOCKS;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    spec.block_stride_alignment = PKV_SPEC_LIMIT;
    assert_ok(pkv_spec_finish(&spec));
    spec.block_stride_alignment++;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
}

static void only_sliding_latent_layers_know_model_versions_by_name(void **state)
{
    (void)state;
    pkv_spec spec = valid(PKV_KIND_SLIDING_WINDOW_MLA);
    spec.model_version = "deepseek_v5";
    assert_status(pkv_spec_finish(&spec), PKV_E_ASSERT);
    spec.model_version = "deepseek_v4";
    assert_ok(pkv_spec_finish(&spec));
    spec = valid(PKV_KIND_MLA);
    spec.model_version = "deepseek_v5";
    assert_ok(pkv_spec_finish(&spec));
}

/* ---- fields of other kinds ---- */

static void fields_that_a_kind_lacks_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind;
        size_t offset;
    } foreign[] = {{PKV_KIND_FULL, offsetof(pkv_spec, rswa_window)},
                   {PKV_KIND_FULL, offsetof(pkv_spec, sink_len)},
                   {PKV_KIND_FULL, offsetof(pkv_spec, alignment)},
                   {PKV_KIND_FULL, offsetof(pkv_spec, topk_buffer_width)},
                   {PKV_KIND_FULL, offsetof(pkv_spec, extra_retained_tokens)},
                   {PKV_KIND_FULL, offsetof(pkv_spec, cache_dtype)},
                   {PKV_KIND_FULL, offsetof(pkv_spec, page_size)},
                   {PKV_KIND_SLIDING_WINDOW, offsetof(pkv_spec, attention_chunk_size)},
                   {PKV_KIND_CHUNKED_LOCAL, offsetof(pkv_spec, sliding_window)},
                   {PKV_KIND_SLIDING_WINDOW_MLA, offsetof(pkv_spec, storage_block_size)},
                   {PKV_KIND_CROSS, offsetof(pkv_spec, sliding_window)},
                   {PKV_KIND_MAMBA, offsetof(pkv_spec, num_kv_heads)},
                   {PKV_KIND_MAMBA, offsetof(pkv_spec, sliding_window)},
                   {PKV_KIND_HISPARSE_HOT, offsetof(pkv_spec, page_size_padded)},
                   {PKV_KIND_HISPARSE_RESIDENT, offsetof(pkv_spec, blocks_per_request)}};
    const char *text = "deepseek_v4";
    for (size_t i = 0; i < COUNT(foreign); i++) {
        pkv_spec spec = valid(foreign[i].kind);
        const uint64_t one = 1;
        if (foreign[i].offset == offsetof(pkv_spec, cache_dtype)) {
            spec.cache_dtype = text;
        } else {
            memcpy((char *)&spec + foreign[i].offset, &one, sizeof one);
        }
        assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
        assert_error_text("pkv_spec_finish", pkv_kind_name(foreign[i].kind));
    }
}

/* "reserved2[4] is 0": a caller who sets it expects something that this library does not do. */
static void reserved_fields_must_be_0(void **state)
{
    (void)state;
    pkv_spec spec = valid(PKV_KIND_FULL);
    spec.reserved2[3] = 1;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    spec = valid(PKV_KIND_FULL);
    spec.reserved0 = 1;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
    spec = valid(PKV_KIND_FULL);
    spec.reserved1 = 1;
    assert_status(pkv_spec_finish(&spec), PKV_E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_finished_spec),
        cmocka_unit_test(every_number_has_its_limits),
        cmocka_unit_test(counts_of_states_have_their_limits),
        cmocka_unit_test(recurrent_states_have_their_limits),
        cmocka_unit_test(ratios_are_positive_and_come_in_lowest_terms),
        cmocka_unit_test(unknown_numbers_of_enumerations_are_refused),
        cmocka_unit_test(flags_are_0_or_1),
        cmocka_unit_test(stride_rules_need_their_number),
        cmocka_unit_test(only_sliding_latent_layers_know_model_versions_by_name),
        cmocka_unit_test(fields_that_a_kind_lacks_are_refused),
        cmocka_unit_test(reserved_fields_must_be_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
