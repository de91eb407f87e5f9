/* test_spec_rules.c  Rules of kv-core sections 1.1 to 1.5 that no row of 9.1 shows. */
#include "plan_fixture.h"

static pkv_status merge2(const pkv_spec *a, const pkv_spec *b, pkv_spec *out)
{
    const pkv_spec *const pair[] = {a, b};
    return pkv_specs_merge(pair, 2, out);
}

static bool one_type(const pkv_spec *a, const pkv_spec *b)
{
    const pkv_spec *const pair[] = {a, b};
    bool uniform;
    assert_ok(pkv_specs_uniform_type(pair, 2, &uniform));
    return uniform;
}

/* ---- 1.1: distance of blocks ---- */

static uint64_t stride_alignment(uint32_t rule, uint64_t value)
{
    uint64_t bytes;
    pkv_spec spec = shaped(PKV_KIND_FULL, 64, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.stride_rule = rule;
    spec.block_stride_alignment = value;
    spec = finished(spec);
    assert_ok(pkv_spec_block_stride_alignment(&spec, &bytes));
    return bytes;
}

static void blocks_lie_whole_kernel_blocks_apart(void **state)
{
    (void)state;
    assert_int_equal(stride_alignment(PKV_STRIDE_ANY, 0), 1);
    assert_int_equal(stride_alignment(PKV_STRIDE_BYTES, 576), 576);
    /* of gcd(16, 64) tokens of 4096 bytes, of gcd(48, 64), of the block itself */
    assert_int_equal(stride_alignment(PKV_STRIDE_KERNEL_BLOCKS, 16), 65536);
    assert_int_equal(stride_alignment(PKV_STRIDE_KERNEL_BLOCKS, 48), 65536);
    assert_int_equal(stride_alignment(PKV_STRIDE_KERNEL_BLOCKS, 64), 1);
    assert_int_equal(stride_alignment(PKV_STRIDE_KERNEL_BLOCKS, 128), 1);
}

/* ---- 1.3: alignment ---- */

static void a_spec_that_is_finished_again_gets_its_pad_anew(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_MLA, 64, 1, 512, PKV_DTYPE_UINT8);
    spec.state_content_bytes = 584;
    spec.alignment = 576;
    spec = finished(spec);
    assert_int_equal(page_of(&spec), 37440);
    spec.block_size = 128;
    spec = finished(spec);
    assert_int_equal(page_of(&spec), 74880);
    spec.block_size = 32;
    spec = finished(spec);
    assert_int_equal(page_of(&spec), 19008);
    spec.block_size = 72; /* 73 x 576 as it is */
    spec = finished(spec);
    assert_int_equal(page_of(&spec), 42048);
}

/* ---- 1.3: the table of kinds ---- */

static void only_attention_that_is_kept_by_position_pads_its_table_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind;
        bool padded, cacheable, slots;
    } kinds[] = {{PKV_KIND_FULL, true, true, true},
                 {PKV_KIND_MLA, true, true, true},
                 {PKV_KIND_HIDDEN_STATE, true, true, true},
                 {PKV_KIND_RSWA, true, true, true},
                 {PKV_KIND_SINK_FULL, true, true, true},
                 {PKV_KIND_SLIDING_WINDOW, true, true, true},
                 {PKV_KIND_CHUNKED_LOCAL, true, true, true},
                 {PKV_KIND_CIRCULAR_BUFFER, false, false, false},
                 {PKV_KIND_KPOOL_TAIL, true, false, true},
                 {PKV_KIND_MAMBA, false, true, true},
                 {PKV_KIND_CROSS, true, true, true},
                 {PKV_KIND_HISPARSE_HOT, false, false, false},
                 {PKV_KIND_HISPARSE_RESIDENT, true, false, true}};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        pkv_spec spec;
        uint64_t tokens = 128;
        assert_ok(pkv_spec_init(&spec, kinds[i].kind));
        assert_status(pkv_spec_table_alignment(&spec, &tokens),
                      kinds[i].padded ? PKV_OK : PKV_E_NOT_FOUND);
        assert_int_equal(tokens, 128);
        assert_int_equal(pkv_spec_prefix_cacheable(&spec), kinds[i].cacheable);
        assert_int_equal(pkv_spec_uses_slot_mapping(&spec), kinds[i].slots);
        assert_int_equal(pkv_spec_has_layer_views(&spec),
                         kinds[i].kind != PKV_KIND_HISPARSE_HOT &&
                             kinds[i].kind != PKV_KIND_HISPARSE_RESIDENT);
    }
}

static pkv_spec latent_window(uint64_t window, uint8_t bounded_replay)
{
    pkv_spec spec = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    spec.sliding_window = window;
    spec.bounded_replay = bounded_replay;
    return finished(spec);
}

static void a_window_that_is_replayed_is_never_cached(void **state)
{
    (void)state;
    const pkv_spec kept = latent_window(128, 0), replayed = latent_window(128, 1);
    assert_true(pkv_spec_prefix_cacheable(&kept));
    assert_int_equal(pkv_spec_prefix_replay_tokens(&kept), 0);
    assert_false(pkv_spec_prefix_cacheable(&replayed));
    assert_int_equal(pkv_spec_prefix_replay_tokens(&replayed), 128); /* the window, again */
    assert_false(one_type(&kept, &replayed));
    const pkv_spec *const pair[] = {&kept, &replayed};
    assert_false(pkv_uniform_prefix_cacheable(pair, 2)); /* and over the layers */
    assert_int_equal(pkv_uniform_prefix_replay_tokens(pair, 2),
                     pkv_spec_prefix_replay_tokens(&replayed)); /* max over the layers */
}

static void a_tail_is_a_window_of_one_block(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_KPOOL_TAIL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    pkv_limits limits = limits_of(8192, 8192);
    uint64_t value;
    spec.sliding_window = 128;
    spec = finished(spec);
    assert_ok(pkv_spec_admission_cap(&spec, &limits, &value));
    assert_int_equal(value, 1);
    assert_ok(pkv_spec_max_blocks(&spec, &limits, 8192, &value));
    assert_int_equal(value, 1);
    assert_int_equal(pages_held(&spec, &limits), 1);
    assert_string_equal(pkv_spec_event_kind(&spec), "sliding_window");
    limits.dcp = 2;
    assert_status(pkv_spec_max_memory_bytes(&spec, &limits, &value), PKV_E_ASSERT);
}

/* ---- 1.4: merges ---- */

static void a_latent_merge_drops_what_belongs_to_full_attention(void **state)
{
    (void)state;
    pkv_spec merged, spec = shaped(PKV_KIND_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16), other;
    spec.sliding_window = 8;
    spec.non_causal = 1;
    spec = finished(spec);
    other = spec;
    other.non_causal_multi_token_decode = 1;
    assert_ok(merge2(&spec, &other, &merged));
    assert_int_equal(merged.sliding_window, 0);
    assert_int_equal(merged.non_causal, 0);
    assert_int_equal(merged.non_causal_multi_token_decode, 1); /* of any */
}

static void latent_layers_with_a_v_do_not_merge(void **state)
{
    (void)state;
    pkv_spec merged, spec = shaped(PKV_KIND_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    spec.head_size_v = 64;
    spec = finished(spec);
    assert_status(merge2(&spec, &spec, &merged), PKV_E_ASSERT);
}

static void latent_layers_merge_only_if_their_pages_mean_the_same(void **state)
{
    (void)state;
    for (int field = 0; field < 7; field++) {
        pkv_spec merged, spec = latent(16, 576), other = spec;
        switch (field) {
        case 0: other.storage_block_size = 64; break;
        case 1: other.topk_buffer_width = 2048; break;
        case 2: other.cache_role = PKV_ROLE_INDEXER; break;
        case 3: other.is_index_group_leader = 1; break;
        case 4: other.model_version = "deepseek_v4"; break;
        case 5: other.max_tp_shards = 1; break;
        default:
            other.stride_rule = PKV_STRIDE_BYTES;
            other.block_stride_alignment = 64;
            break;
        }
        other = finished(other);
        assert_false(pkv_spec_equal(&spec, &other));
        assert_status(merge2(&spec, &other, &merged), PKV_E_ASSERT);
    }
}

static void an_alignment_survives_a_merge_only_where_all_agree(void **state)
{
    (void)state;
    pkv_spec merged, aligned = shaped(PKV_KIND_MLA, 64, 1, 512, PKV_DTYPE_UINT8), padded;
    aligned.state_content_bytes = 584;
    padded = aligned;
    aligned.alignment = 576;
    padded.page_size_padded = 37440; /* the same page by an explicit pad */
    aligned = finished(aligned);
    padded = finished(padded);
    assert_ok(merge2(&aligned, &padded, &merged));
    assert_int_equal(merged.alignment, 0);
    assert_int_equal(merged.page_size_padded, 37440);
}

static void sinks_merge_with_the_first_ones_length_and_whole_states(void **state)
{
    (void)state;
    pkv_spec merged, first = shaped(PKV_KIND_SINK_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16), other;
    first.sink_len = 16;
    first = finished(first);
    other = first;
    other.sink_len = 32;
    assert_ok(merge2(&first, &other, &merged));
    assert_int_equal(merged.sink_len, 16);
    first.tokens_per_state = (pkv_ratio){4, 1};
    assert_status(merge2(&first, &first, &merged), PKV_E_ASSERT);
}

/* ---- 1.3, 1.5: layers of one type ---- */

static void recurrent_layers_are_of_one_type_if_their_pages_are(void **state)
{
    (void)state;
    pkv_state bytes;
    const pkv_spec spec = finished(recurrent(16));
    const pkv_spec same = finished(recurrent_of(16, &bytes, 16896)); /* other tensors */
    pkv_spec more = recurrent(16), replicated = recurrent(16), padded = recurrent(16);
    more.num_speculative_blocks = 1;
    replicated.tp_replicated = 1;
    padded.page_size_padded = 20000;
    more = finished(more);
    replicated = finished(replicated);
    padded = finished(padded);
    assert_true(one_type(&spec, &same));
    assert_false(one_type(&spec, &more));
    assert_false(one_type(&spec, &replicated));
    assert_false(one_type(&spec, &padded));
}

static void kinds_without_tokens_in_common_are_of_several_types(void **state)
{
    (void)state;
    bool uniform;
    const pkv_spec ring = ring_of(16, 2048), wide = ring_of(16, 4096), longer = ring_of(32, 2048);
    const pkv_spec chunk = chunked(64), other = chunked(128);
    const pkv_spec encoder =
        finished(shaped(PKV_KIND_ENCODER_ONLY, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    const pkv_spec *const alone[] = {&encoder};
    assert_true(one_type(&ring, &wide));
    assert_false(one_type(&ring, &longer)); /* one block size for all */
    assert_true(one_type(&chunk, &chunk));
    assert_false(one_type(&chunk, &other));
    assert_status(pkv_specs_uniform_type(alone, 1, &uniform), PKV_E_ASSERT); /* unregistered */
}

static void a_group_has_the_window_that_all_share(void **state)
{
    (void)state;
    uint64_t window;
    const pkv_spec four = windowed(4), eight = windowed(8), plain = full();
    const pkv_spec *const same[] = {&four, &four}, *const two[] = {&four, &eight};
    const pkv_spec *const none[] = {&four, &plain};
    assert_ok(pkv_uniform_event_window(same, 2, &window));
    assert_int_equal(window, 4);
    assert_status(pkv_uniform_event_window(two, 2, &window), PKV_E_NOT_FOUND);
    assert_status(pkv_uniform_event_window(none, 2, &window), PKV_E_NOT_FOUND);
}

static void an_unknown_model_version_is_found_before_a_stride_of_nothing(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 64, 1, 576, PKV_DTYPE_BFLOAT16);
    spec.sliding_window = 128;
    spec.stride_rule = PKV_STRIDE_BYTES; /* 0 bytes: VALUE */
    assert_status(pkv_spec_finish(&spec), PKV_E_VALUE);
    spec.model_version = "x"; /* vLLM's construction of the kind asserts this first */
    assert_status(pkv_spec_finish(&spec), PKV_E_ASSERT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_lie_whole_kernel_blocks_apart),
        cmocka_unit_test(an_unknown_model_version_is_found_before_a_stride_of_nothing),
        cmocka_unit_test(a_spec_that_is_finished_again_gets_its_pad_anew),
        cmocka_unit_test(only_attention_that_is_kept_by_position_pads_its_table_rows),
        cmocka_unit_test(a_window_that_is_replayed_is_never_cached),
        cmocka_unit_test(a_tail_is_a_window_of_one_block),
        cmocka_unit_test(a_latent_merge_drops_what_belongs_to_full_attention),
        cmocka_unit_test(latent_layers_with_a_v_do_not_merge),
        cmocka_unit_test(latent_layers_merge_only_if_their_pages_mean_the_same),
        cmocka_unit_test(an_alignment_survives_a_merge_only_where_all_agree),
        cmocka_unit_test(sinks_merge_with_the_first_ones_length_and_whole_states),
        cmocka_unit_test(recurrent_layers_are_of_one_type_if_their_pages_are),
        cmocka_unit_test(kinds_without_tokens_in_common_are_of_several_types),
        cmocka_unit_test(a_group_has_the_window_that_all_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
