/* test_plan_rules.c  Rules of kv-core sections 2, 4.4 and 7 that no row of 9.2 shows. */
#include "plan_fixture.h"

/* ---- 2.1, 2.2: layouts and blocks ---- */

static void pages_that_differ_need_a_layout_of_whole_pages(void **state)
{
    (void)state;
    const pkv_spec same[] = {full(), windowed(128)}, other[] = {full(), windowed_of(128, 16, 4)};
    pkv_plan_params params = params_of(same, 2, GIB, 1024);
    params.layout = PKV_LAYOUT_LHBNC;
    pkv_plan_destroy(plan_of(&params));
    params.layers = other;
    assert_no_plan(&params, PKV_E_VALUE, "LHBNC");
    params.layout = PKV_LAYOUT_BHLNC;
    assert_no_plan(&params, PKV_E_VALUE, "BHLNC");
}

/* A plan of two widths whose blocks must lie `align` bytes apart. */
static uint64_t block_bytes(uint32_t layout, uint64_t align)
{
    pkv_spec layers[] = {full(), full_of(16, 3)}; /* 65536 and 24576 bytes */
    for (int i = 0; i < 2; i++) {
        layers[i].stride_rule = align ? PKV_STRIDE_BYTES : PKV_STRIDE_ANY;
        layers[i].block_stride_alignment = align;
        layers[i] = finished(layers[i]);
    }
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.layout = layout;
    pkv_plan *plan = plan_of(&params);
    const uint64_t bytes = pkv_plan_worker_at(plan, 0)->bytes_per_block;
    pkv_plan_destroy(plan);
    return bytes;
}

static void aligned_blocks_pad_each_page_or_the_whole_block(void **state)
{
    (void)state;
    assert_int_equal(block_bytes(PKV_LAYOUT_LBNHC, 0), 90112);
    assert_int_equal(block_bytes(PKV_LAYOUT_BLHNC, 0), 90112);
    /* 50000: two pages of 100000 and 50000; side by side they fit into 100000 */
    assert_int_equal(block_bytes(PKV_LAYOUT_LBNHC, 50000), 150000);
    assert_int_equal(block_bytes(PKV_LAYOUT_BLHNC, 50000), 100000);
}

/* ---- 2.3: draft groups ---- */

static pkv_plan_params drafted(pkv_spec layers[3])
{
    layers[0] = full();
    layers[1] = windowed(128);
    layers[2] = windowed(128);
    layers[2].is_draft = 1;
    return params_of(layers, 3, GIB, 1024);
}

static void assert_eagle(const pkv_plan_params *params, bool wanted)
{
    pkv_plan *plan = plan_of(params);
    assert_groups(plan, "(0)(1)(2)");
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->is_eagle, 0);
    assert_int_equal(pkv_plan_group_at(plan, 0, 1)->is_eagle, 0);
    assert_int_equal(pkv_plan_group_at(plan, 0, 2)->is_eagle, wanted);
    pkv_plan_destroy(plan);
}

static void groups_of_drafts_drop_a_block_with_some_drafters(void **state)
{
    (void)state;
    pkv_spec layers[3];
    pkv_plan_params params = drafted(layers);
    for (uint32_t method = PKV_DRAFT_NONE; method <= PKV_DRAFT_NGRAM; method++) {
        params.draft_method = method;
        params.draft_block_drop = 1;
        assert_eagle(&params, method == PKV_DRAFT_EAGLE || method == PKV_DRAFT_MTP ||
                                  method == PKV_DRAFT_MTP_MULTI);
        params.draft_block_drop = 0;
        assert_eagle(&params, false);
    }
}

static void the_earlier_revision_flags_drafts_without_a_drafter(void **state)
{
    (void)state;
    pkv_spec layers[3];
    pkv_plan_params params = drafted(layers);
    params.revision = PKV_REVISION_SEED;
    assert_eagle(&params, true);
}

static void drafters_that_look_ahead_keep_tokens_below_the_window(void **state)
{
    (void)state;
    static const uint64_t extra[] = {0, 0, 0, 3, 0, 0, 0}; /* by method, 4 tokens: lookahead - 1 */
    pkv_spec layers[3];
    pkv_plan_params params = drafted(layers);
    params.draft_tokens = 4;
    for (uint32_t method = PKV_DRAFT_NONE; method <= PKV_DRAFT_NGRAM; method++) {
        params.draft_method = method;
        assert_int_equal(pkv_plan_params_extra_retained(&params), extra[method]);
        pkv_plan *plan = plan_of(&params);
        assert_int_equal(group_spec(plan, 1)->extra_retained_tokens, extra[method]);
        pkv_plan_destroy(plan);
    }
}

/* ---- 2.3: hybrid planning off ---- */

static void promoted_layers_take_the_block_of_the_full_ones_and_keep_their_pad(void **state)
{
    (void)state;
    pkv_spec narrow = windowed_of(128, 16, 4); /* 32768 bytes */
    narrow.page_size_padded = 40000;
    const pkv_spec layers[] = {full_of(32, 8), finished(narrow), full_of(32, 8)};
    pkv_plan_params params = params_of(layers, 3, GIB, 1024);
    params.enable_hybrid = 0;
    pkv_plan *plan = plan_of(&params);
    const pkv_group *group = pkv_plan_group_at(plan, 0, 0);
    assert_int_equal(n_groups(plan), 1);
    assert_int_equal(group->block_size, 32);
    assert_int_equal(group->page_bytes, 131072 + 65536 + 131072); /* max(40000, 32768 x 32 / 16) */
    pkv_plan_destroy(plan);
}

static void promotion_keeps_the_chunk_and_makes_latent_windows_latent(void **state)
{
    (void)state;
    pkv_spec sliding = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    sliding.sliding_window = 128;
    const pkv_spec layers[] = {full(), chunked(256), finished(sliding)};
    pkv_plan_params params = params_of(layers, 3, GIB, 1024);
    params.enable_hybrid = 0;
    pkv_plan *plan = plan_of(&params);
    const pkv_group *group = pkv_plan_group_at(plan, 0, 0);
    assert_int_equal(group->classes[group->class_of[1]].spec->kind, PKV_KIND_FULL);
    assert_int_equal(group->classes[group->class_of[1]].spec->attention_chunk_size, 256);
    assert_int_equal(group->classes[group->class_of[2]].spec->kind, PKV_KIND_MLA);
    pkv_plan_destroy(plan);
}

static void states_and_rings_are_never_promoted(void **state)
{
    (void)state;
    const pkv_spec states[] = {full(), finished(recurrent(16))};
    const pkv_spec rings[] = {full(), windowed(128), ring_of(16, 2048)};
    pkv_plan_params params = params_of(states, 2, GIB, 1024);
    params.enable_hybrid = 0;
    assert_no_plan(&params, PKV_E_VALUE, "enable_hybrid");
    params.layers = rings;
    params.n_layers = 3;
    assert_no_plan(&params, PKV_E_VALUE, "enable_hybrid");
}

static void whole_attention_is_promoted_on_its_own(void **state)
{
    (void)state;
    pkv_spec layers[] = {full(), windowed(128), full(), windowed(128)};
    for (int i = 2; i < 4; i++) {
        layers[i].dcp_sharded = 0;
        layers[i] = finished(layers[i]);
    }
    pkv_plan_params params = params_of(layers, 4, GIB, 1024);
    params.enable_hybrid = 0;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1)(2 3)");
    pkv_plan_destroy(plan);
}

/* ---- 2.4: packing ---- */

/* Four full layers, and ten states of half a page: 4 x 65536 bytes hold 8 of these: two groups. */
static void states_are_split_so_that_they_never_widen_a_block(void **state)
{
    (void)state;
    pkv_state bytes;
    pkv_spec layers[14];
    for (int i = 0; i < 14; i++) {
        layers[i] = i < 4 ? full() : finished(recurrent_of(16, &bytes, 32768));
    }
    pkv_plan_params params = params_of(layers, 14, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1 2 3)(4 6 8 10 12)(5 7 9 11 13)");
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 4 * 65536);
    pkv_plan_destroy(plan);
}

static void a_packed_hidden_state_is_a_group_as_it_is(void **state)
{
    (void)state;
    const pkv_spec layers[] = {
        full(), windowed_of(128, 16, 4),
        finished(shaped(PKV_KIND_HIDDEN_STATE, 16, 4, 64, PKV_DTYPE_BFLOAT16))};
    pkv_plan_params params = params_of(layers, 3, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0)(1)(2)");
    assert_true(pkv_spec_equal(group_spec(plan, 2), &layers[2]));
    pkv_plan_destroy(plan);
}

/* ---- 2.5, 2.6, the beginning of 2 ---- */

static void sharded_layers_have_no_replicas_under_context_parallelism(void **state)
{
    (void)state;
    pkv_spec mla = latent(16, 576);
    mla.max_tp_shards = 1;
    mla = finished(mla);
    pkv_plan_params params = params_of(&mla, 1, GIB, 1024);
    params.tp = 8;
    params.dcp = 2;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->tp_replicas, 1);
    assert_int_equal(pkv_plan_get_summary(plan)->blocks_per_request, 32); /* 1024 / 2 / 16 */
    pkv_plan_destroy(plan);
}

static void a_layer_that_is_not_causal_turns_caching_off(void **state)
{
    (void)state;
    pkv_spec spec = full();
    const pkv_plan_params params = params_of(&spec, 1, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->caching, 1);
    pkv_plan_destroy(plan);
    spec.non_causal = 1;
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->caching, 0);
    pkv_plan_destroy(plan);
}

/* ---- 4.4: sizes ---- */

static void assert_sizes(const pkv_plan_params *params, pkv_status status, uint64_t scheduler,
                         uint64_t hash, uint64_t hit)
{
    pkv_plan *plan = plan_of(params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(s->sizes_status, status);
    assert_int_equal(s->scheduler_block_size, scheduler);
    assert_int_equal(s->hash_block_size, hash);
    assert_int_equal(s->hit_alignment, hit);
    pkv_plan_destroy(plan);
}

static void one_group_works_in_its_blocks_over_all_ranks(void **state)
{
    (void)state;
    pkv_spec layer = full();
    pkv_plan_params params = params_of(&layer, 1, GIB, 1024);
    assert_sizes(&params, PKV_OK, 16, 16, 16);
    params.dcp = 2;
    assert_sizes(&params, PKV_OK, 32, 32, 32);
    params.prefix_match_unit = 16;
    assert_sizes(&params, PKV_E_VALUE, 0, 0, 0); /* another unit than the block */
    params.prefix_match_unit = 32;
    assert_sizes(&params, PKV_OK, 32, 32, 32);
    layer.dcp_sharded = 0;
    params.prefix_match_unit = 0;
    assert_sizes(&params, PKV_OK, 16, 16, 16);
}

static void states_of_several_tokens_divide_the_hits(void **state)
{
    (void)state;
    pkv_spec layers[] = {full(), windowed(128)};
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    layers[0].tokens_per_state = (pkv_ratio){4, 1};
    layers[0] = finished(layers[0]);
    assert_sizes(&params, PKV_OK, 64, 16, 64);      /* grown to the window's page: blocks of 64 */
    layers[0].tokens_per_state = (pkv_ratio){5, 1}; /* 3 states of 24576 bytes: padded, 16 */
    layers[0] = finished(layers[0]);
    assert_sizes(&params, PKV_E_VALUE, 0, 0, 0);
}

static void aligned_states_are_found_inside_their_block(void **state)
{
    (void)state;
    pkv_spec layers[] = {full_of(32, 8), recurrent(96), windowed_of(128, 96, 8)};
    layers[1].mamba_mode = PKV_MAMBA_ALIGN;
    layers[1] = finished(layers[1]);
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    assert_sizes(&params, PKV_OK, 96, 32, 32);
    params.caching = 0;
    assert_sizes(&params, PKV_OK, 96, 96, 96);
    /* but not beside a window whose block is longer than the unit */
    layers[0] = full_of(32, 24); /* both pages are 393216 bytes */
    params.caching = 1;
    params.n_layers = 3;
    assert_sizes(&params, PKV_OK, 96, 32, 96);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_that_differ_need_a_layout_of_whole_pages),
        cmocka_unit_test(aligned_blocks_pad_each_page_or_the_whole_block),
        cmocka_unit_test(groups_of_drafts_drop_a_block_with_some_drafters),
        cmocka_unit_test(the_earlier_revision_flags_drafts_without_a_drafter),
        cmocka_unit_test(drafters_that_look_ahead_keep_tokens_below_the_window),
        cmocka_unit_test(promoted_layers_take_the_block_of_the_full_ones_and_keep_their_pad),
        cmocka_unit_test(promotion_keeps_the_chunk_and_makes_latent_windows_latent),
        cmocka_unit_test(states_and_rings_are_never_promoted),
        cmocka_unit_test(whole_attention_is_promoted_on_its_own),
        cmocka_unit_test(states_are_split_so_that_they_never_widen_a_block),
        cmocka_unit_test(a_packed_hidden_state_is_a_group_as_it_is),
        cmocka_unit_test(sharded_layers_have_no_replicas_under_context_parallelism),
        cmocka_unit_test(a_layer_that_is_not_causal_turns_caching_off),
        cmocka_unit_test(one_group_works_in_its_blocks_over_all_ranks),
        cmocka_unit_test(states_of_several_tokens_divide_the_hits),
        cmocka_unit_test(aligned_states_are_found_inside_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
