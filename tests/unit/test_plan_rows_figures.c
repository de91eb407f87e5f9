/* test_plan_rows_figures.c  Rows 65 to 72, 76 and 77 of the reference's cases (kv-core 9.2): block
 * and hash sizes, zeroing, transfer groups, hidden states, replicas, HiSparse. */
#include "plan_fixture.h"

/* ---- rows 65 to 68: block and hash sizes ---- */

/* A full and a windowed layer with blocks of a and b tokens and pages of one size,
 * a x b / 16 x 512 bytes. */
static void two_blocks(pkv_spec layers[2], uint64_t a, uint64_t b)
{
    layers[0] = full_of(a, b / 16);
    layers[1] = windowed_of(128, b, a / 16);
}

static void assert_sizes(const pkv_plan_params *params, uint64_t scheduler, uint64_t hash)
{
    pkv_plan *plan = plan_of(params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(n_groups(plan), 2);
    assert_int_equal(s->sizes_status, PKV_OK);
    assert_int_equal(s->scheduler_block_size, scheduler);
    assert_int_equal(s->hash_block_size, hash);
    assert_string_equal(pkv_plan_sizes_error(plan), "");
    pkv_plan_destroy(plan);
}

static void
row_65_two_block_sizes_schedule_by_their_multiple_and_hash_by_their_divisor(void **state)
{
    (void)state;
    pkv_spec layers[2];
    two_blocks(layers, 32, 48);
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    assert_sizes(&params, 96, 16);
}

static void row_66_states_that_are_not_aligned_are_hashed_whole(void **state)
{
    (void)state;
    pkv_spec layers[2] = {full_of(32, 8), recurrent(96)};
    layers[1].mamba_mode = PKV_MAMBA_ALIGN;
    layers[1] = finished(layers[1]);
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    assert_sizes(&params, 96, 32);
    layers[1].mamba_mode = PKV_MAMBA_NONE;
    layers[1] = finished(layers[1]);
    assert_sizes(&params, 96, 96);
}

static void row_67_a_unit_divides_the_blocks(void **state)
{
    (void)state;
    pkv_spec layers[2];
    two_blocks(layers, 32, 64);
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.prefix_match_unit = 16;
    assert_sizes(&params, 64, 16);
}

static void row_67_without_caching_a_key_covers_the_scheduler_block(void **state)
{
    (void)state;
    pkv_spec layers[2];
    two_blocks(layers, 32, 64);
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.caching = 0;
    assert_sizes(&params, 64, 64);
}

/* The plan itself stands: only the sizes cannot be resolved, and say why. */
static void row_67_a_unit_that_divides_not_all_blocks_has_no_sizes(void **state)
{
    (void)state;
    pkv_spec layers[2];
    two_blocks(layers, 32, 48);
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.prefix_match_unit = 32;
    pkv_plan *plan = plan_of(&params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(s->sizes_status, PKV_E_VALUE);
    assert_int_equal(s->scheduler_block_size, 0);
    assert_int_equal(s->hash_block_size, 0);
    assert_int_equal(s->hit_alignment, 0);
    assert_non_null(strstr(pkv_plan_sizes_error(plan), "prefix_match_unit 32"));
    pkv_plan_destroy(plan);
}

static void row_68_a_ring_takes_no_part_in_the_unit(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 8), ring_of(8, 8192)}; /* both 131072 bytes */
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    assert_sizes(&params, 32, 32);
}

/* ---- row 69: zeroing ---- */

static bool zeroes(const pkv_spec *layers, size_t n)
{
    const pkv_plan_params params = params_of(layers, n, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    const bool zeroing = pkv_plan_get_summary(plan)->zeroing;
    assert_int_equal(pkv_plan_worker_at(plan, 0)->zeroing, zeroing);
    pkv_plan_destroy(plan);
    return zeroing;
}

static void row_69_blocks_are_zeroed_where_precisions_or_states_change_owners(void **state)
{
    (void)state;
    pkv_spec narrow = windowed(128);
    narrow.dtype = PKV_DTYPE_UINT8;
    const pkv_spec alike[] = {full(), windowed(128)};
    const pkv_spec mixed[] = {full(), finished(narrow)};
    const pkv_spec states[] = {full(), finished(recurrent(16))};
    assert_false(zeroes(alike, 2));
    assert_true(zeroes(mixed, 2));
    assert_true(zeroes(states, 2));
}

/* ---- rows 69, 70, 76 and 77: HiSparse ---- */

/* Sparse layers m0..m3 (leaders m0 and m2) in fp8_ds records, and two indexers of 132 bytes:
 * m0 i0 m1 m2 i1 m3 are layers 0 to 5. Layer 6, if used, is a ring. */
static void fill_sparse(pkv_spec layers[7])
{
    pkv_spec indexer = shaped(PKV_KIND_MLA, 64, 1, 132, PKV_DTYPE_UINT8);
    indexer.cache_role = PKV_ROLE_INDEXER;
    indexer = finished(indexer);
    for (int i = 0; i < 6; i++) {
        layers[i] = latent(64, 576);
        layers[i].is_index_group_leader = i == 0 || i == 3;
        assert_ok(pkv_spec_set_cache_dtype(&layers[i], "fp8_ds_mla", 0)); /* 656 bytes */
        if (i == 1 || i == 4) {
            layers[i] = indexer;
        }
    }
    layers[6] = ring_of(8, 1024);
}

static pkv_plan_params sparse_params(const pkv_spec *layers, size_t n)
{
    pkv_plan_params params = params_of(layers, n, GIB, 8192);
    params.layout = PKV_LAYOUT_BLHNC;
    params.hisparse = 1;
    params.hisparse_host_bytes = (uint64_t)GIB;
    params.hisparse_index_topk = 2048;
    return params;
}

/* The row has a one-byte window in a host group; only a HiSparse source ever lies there. */
static void row_69_what_lies_on_the_host_is_not_counted(void **state)
{
    (void)state;
    pkv_spec layers[7];
    fill_sparse(layers);
    for (int i = 1; i <= 4; i += 3) { /* indexers of two bytes beside sources of one */
        layers[i].dtype = PKV_DTYPE_BFLOAT16;
        layers[i].head_size = 66;
        layers[i] = finished(layers[i]);
    }
    const pkv_plan_params params = sparse_params(layers, 6);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->host, 1);
    assert_int_equal(pkv_plan_get_summary(plan)->zeroing, 0);
    assert_int_equal(pkv_plan_get_summary(plan)->mixed_precision, 0);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->mixed_precision, 0);
    pkv_plan_destroy(plan);
}

/* A group that is not transferred is one that HiSparse derives. How block lists are selected by
 * these flags, and the index per layer, are in tests/cli/test_plan_documents.py. Nobody can give a
 * list of the wrong length yet. */
static void row_70_derived_groups_are_not_transferred_and_rings_are(void **state)
{
    (void)state;
    static const uint8_t transfer[] = {1, 1, 0, 0, 0, 0, 1}; /* source, indexer, ..., ring */
    pkv_spec layers[7];
    fill_sparse(layers);
    const pkv_plan_params params = sparse_params(layers, 7);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(n_groups(plan), 7);
    for (uint32_t g = 0; g < 7; g++) {
        assert_int_equal(pkv_plan_group_at(plan, 0, g)->transfer, transfer[g]);
    }
    assert_true(pkv_spec_prefix_cacheable(group_spec(plan, 0)));
    assert_false(pkv_spec_prefix_cacheable(group_spec(plan, 6)));
    pkv_plan_destroy(plan);
}

static void row_76_sparse_layers_live_on_the_host_and_in_hot_and_resident_groups(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {PKV_KIND_MLA,
                                     PKV_KIND_MLA,
                                     PKV_KIND_HISPARSE_RESIDENT,
                                     PKV_KIND_HISPARSE_RESIDENT,
                                     PKV_KIND_HISPARSE_HOT,
                                     PKV_KIND_HISPARSE_HOT};
    pkv_spec layers[7];
    fill_sparse(layers);
    const pkv_plan_params params = sparse_params(layers, 6);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 2 3 5)(1 4)(0 2)(3 5)(0 2)(3 5)");
    for (uint32_t g = 0; g < 6; g++) {
        const pkv_group *group = pkv_plan_group_at(plan, 0, g);
        assert_int_equal(group->kind, kinds[g]);
        assert_int_equal(group->host, g == 0);
        assert_int_equal(group->role, g == 0   ? PKV_GROUP_HISPARSE_SOURCE
                                      : g == 1 ? PKV_GROUP_HISPARSE_INDEXER
                                               : PKV_GROUP_DEFAULT);
    }
    assert_int_equal(pkv_plan_group_at(plan, 0, 1)->page_bytes, 16896); /* 2 x 64 x 132 */
    assert_int_equal(group_spec(plan, 4)->blocks_per_request, 64);
    assert_int_equal(group_spec(plan, 5)->blocks_per_request, 64);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(s->host_num_blocks, 6393);
    assert_int_equal(s->host_block_stride, 167936); /* 4 x 64 x 656 */
    assert_int_equal(s->num_blocks, 12787);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 83968); /* 2 x 64 x 656 */
    pkv_plan_destroy(plan);
}

static void row_77_the_device_binds_at_8192_tokens(void **state)
{
    (void)state;
    pkv_spec layers[7];
    fill_sparse(layers);
    const pkv_plan_params params = sparse_params(layers, 6);
    pkv_plan *plan = plan_of(&params);
    /* 12787 / (128 indexer + 2 x 128 resident + 2 x 64 hot); the host: 6393 / 128 = 49.9 */
    assert_near(pkv_plan_get_summary(plan)->max_concurrency, 24.974609, 5e-7);
    pkv_plan_destroy(plan);
}

/* ---- retention (kv-core 2.6, last paragraph) ---- */

static pkv_status retention(const pkv_spec *layers, size_t n, uint64_t interval)
{
    pkv_plan_params params = params_of(layers, n, GIB, 1024);
    params.retention_interval = interval;
    pkv_plan *plan = plan_of(&params);
    assert_true(pkv_plan_retention_interval(plan) == interval);
    const pkv_status st = pkv_plan_check_retention(plan);
    pkv_plan_destroy(plan);
    return st;
}

static void checkpoints_need_windows_or_states_and_whole_scheduler_blocks(void **state)
{
    (void)state;
    const pkv_spec plain[] = {full()}, hybrid[] = {full(), windowed(128)};
    const pkv_spec states[] = {full_of(32, 8), finished(recurrent(64))};
    assert_status(retention(plain, 1, PKV_RETAIN_DENSE), PKV_OK);
    assert_status(retention(plain, 1, 0), PKV_OK);
    assert_status(retention(plain, 1, 16), PKV_E_VALUE);  /* row 140: full only */
    assert_status(retention(hybrid, 2, 24), PKV_E_VALUE); /* row 140: blocks of 16 */
    assert_error_text("pkv_plan_check_retention", "24");
    assert_status(retention(hybrid, 2, 32), PKV_OK);
    assert_status(retention(hybrid, 2, 0), PKV_OK);
    assert_status(retention(hybrid, 2, PKV_RETAIN_DENSE), PKV_OK);
    assert_status(retention(states, 2, 32), PKV_E_VALUE); /* scheduler block lcm(32, 64) */
    assert_status(retention(states, 2, 64), PKV_OK);
}

/* ---- rows 71 and 72 ---- */

static void row_71_a_hidden_state_fits_into_the_common_page(void **state)
{
    (void)state;
    const pkv_spec layers[] = {
        full(), windowed(128),
        finished(shaped(PKV_KIND_HIDDEN_STATE, 16, 4, 4096, PKV_DTYPE_BFLOAT16))};
    const pkv_plan_params params = params_of(layers, 3, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0)(1)(2)");
    assert_int_equal(pkv_plan_group_at(plan, 0, 2)->kind, PKV_KIND_HIDDEN_STATE);
    assert_int_equal(group_spec(plan, 2)->block_size, 2); /* of 4 x 4096 x 2 = 32768 bytes */
    assert_int_equal(group_spec(plan, 2)->page_size_padded, 65536);
    pkv_plan_destroy(plan);
}

static uint64_t replicas(const pkv_spec *layers, size_t n)
{
    pkv_plan_params params = params_of(layers, n, GIB, 1024);
    params.tp = 8;
    pkv_plan *plan = plan_of(&params);
    const uint64_t count = pkv_plan_get_summary(plan)->tp_replicas;
    pkv_plan_destroy(plan);
    return count;
}

static void row_72_ranks_beyond_the_shards_are_replicas(void **state)
{
    (void)state;
    pkv_spec mla = latent(16, 576), quarter = full();
    mla.max_tp_shards = 1;
    mla = finished(mla);
    quarter.max_tp_shards = 4;
    quarter = finished(quarter);
    const pkv_spec both[] = {quarter, mla}, unknown[] = {full()};
    assert_int_equal(replicas(&mla, 1), 8);
    assert_int_equal(replicas(both, 2), 2);
    assert_int_equal(replicas(unknown, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            row_65_two_block_sizes_schedule_by_their_multiple_and_hash_by_their_divisor),
        cmocka_unit_test(row_66_states_that_are_not_aligned_are_hashed_whole),
        cmocka_unit_test(row_67_a_unit_divides_the_blocks),
        cmocka_unit_test(row_67_without_caching_a_key_covers_the_scheduler_block),
        cmocka_unit_test(row_67_a_unit_that_divides_not_all_blocks_has_no_sizes),
        cmocka_unit_test(row_68_a_ring_takes_no_part_in_the_unit),
        cmocka_unit_test(row_69_blocks_are_zeroed_where_precisions_or_states_change_owners),
        cmocka_unit_test(row_69_what_lies_on_the_host_is_not_counted),
        cmocka_unit_test(row_70_derived_groups_are_not_transferred_and_rings_are),
        cmocka_unit_test(checkpoints_need_windows_or_states_and_whole_scheduler_blocks),
        cmocka_unit_test(row_71_a_hidden_state_fits_into_the_common_page),
        cmocka_unit_test(row_72_ranks_beyond_the_shards_are_replicas),
        cmocka_unit_test(row_76_sparse_layers_live_on_the_host_and_in_hot_and_resident_groups),
        cmocka_unit_test(row_77_the_device_binds_at_8192_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
