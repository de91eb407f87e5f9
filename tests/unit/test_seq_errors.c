/* test_seq_errors.c  Every call that is refused leaves the cache as it was. */
#include "seq_fixture.h"

/* ---- what a cache is, at one moment ---- */

typedef struct picture {
    uint64_t n_free, n_keys, n_table;
    pkv_block free[MANY_BLOCKS], table[64];
    pkv_seq_info info;
} picture;

static picture picture_of(const pkv_cache *cache, const pkv_seq *seq)
{
    picture p;
    uint64_t n;
    memset(&p, 0, sizeof p);
    p.n_free = pkv_pool_free_list(pkv_cache_get_pool(cache), p.free, MANY_BLOCKS);
    p.n_keys = keys_in(cache);
    const pkv_block *table = pkv_seq_table(seq, 0, &n);
    p.n_table = n;
    for (uint64_t i = 0; i < n; i++) {
        p.table[i] = table[i];
    }
    p.info = info_of(seq);
    return p;
}

/* The call is refused so, with a text of that function, and nothing has changed. */
#define assert_refused_call(call, status, function, part)       \
    do {                                                        \
        const picture before_ = picture_of(cache, seq);         \
        assert_status(call, status);                            \
        assert_error_text(function, part);                      \
        const picture after_ = picture_of(cache, seq);          \
        assert_memory_equal(&before_, &after_, sizeof before_); \
        assert_sound(cache);                                    \
    } while (0)

#define assert_inval(call, function, part) assert_refused_call(call, PKV_E_INVAL, function, part)

/* ---- create ---- */

static void a_cache_needs_a_plan(void **state)
{
    (void)state;
    pkv_cache *cache = (pkv_cache *)(uintptr_t)1;
    pkv_cache_params params;
    pkv_cache_params_init(&params);
    assert_status(pkv_cache_create(&params, &cache), PKV_E_INVAL);
    assert_null(cache);
    assert_status(pkv_cache_create(NULL, &cache), PKV_E_INVAL);
    assert_status(pkv_cache_create(&params, NULL), PKV_E_INVAL);
    assert_error_text("pkv_cache_create", "NULL");
}

static void assert_no_cache(const pkv_plan_params *plan_params, pkv_status status, const char *part)
{
    assert_no_cache_with(plan_params, cache_params_of(NULL, NULL), status, part);
}

static void a_plan_whose_sizes_cannot_be_resolved_makes_no_cache(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 8), windowed_of(128, 48, 8)};
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    params.prefix_match_unit = 32; /* does not divide gcd(32, 48) = 16 */
    assert_no_cache(&params, PKV_E_VALUE, "prefix_match_unit 32");
}

static void states_that_are_not_kept_allow_no_prefixes(void **state)
{
    (void)state;
    const pkv_spec states[] = {finished(recurrent(1024))};
    pkv_plan_params params = params_of(states, 1, GIB, 1024);
    assert_no_cache(&params, PKV_E_ASSERT, "align");
    params.caching = 0;
    pkv_cache_destroy(cache_of(&params));
}

static void a_sink_is_whole_blocks(void **state)
{
    (void)state;
    pkv_spec sink = full();
    sink.kind = PKV_KIND_SINK_FULL;
    sink.sink_len = 24;
    const pkv_spec layers[] = {finished(sink)};
    const pkv_plan_params params = params_of(layers, 1, GIB, 1024);
    assert_no_cache(&params, PKV_E_ASSERT, "sink_len 24");
}

static void a_drafter_that_looks_beyond_a_block_makes_no_cache(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params params = with_drop(blocks_for(layers, 1, 20, 160));
    params.draft_method = PKV_DRAFT_MTP_MULTI;
    params.draft_tokens = 17;
    assert_no_cache(&params, PKV_E_VALUE, "lookahead of 17");
    params.draft_tokens = 16;
    pkv_cache_destroy(cache_of(&params));
}

static void ids_of_blocks_are_below_2_to_the_31(void **state)
{
    (void)state;
    const pkv_spec layers[] = {latent(16, 1)};
    const pkv_plan_params params = blocks_for(layers, 1, PKV_POOL_MAX_BLOCKS + 1, 160);
    assert_no_cache(&params, PKV_E_INVAL, "num_blocks 2147483648");
}

static void a_cache_needs_a_known_hash(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const uint8_t cluster[32] = {1};
    const pkv_plan_params plan_params = blocks_for(layers, 1, 20, 160);
    pkv_plan *plan = plan_of(&plan_params);
    pkv_cache_params params = cache_params_of(plan, NULL);
    pkv_cache *cache;
    params.hash = PKV_N_HASHES;
    assert_status(pkv_cache_create(&params, &cache), PKV_E_INVAL);
    assert_null(cache);
    params.hash = PKV_HASH_SHA256_CBOR;
    params.cluster_seed = cluster;
    assert_status(pkv_cache_create(&params, &cache), PKV_E_INVAL);
    assert_null(cache);
    params.hash = PKV_HASH_PKV_XXH3;
    assert_ok(pkv_cache_create(&params, &cache));
    assert_int_equal(pkv_cache_get_info(cache)->key_bytes, 16);
    end_cache(cache);
    pkv_plan_destroy(plan);
}

/* ---- open ---- */

static void a_sequence_needs_tokens_within_the_longest_request(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40), *out;
    int32_t negative[] = {1, 2, -3};
    pkv_seq_params p = seq_params_of(counting(), 0);
    const char *open = "pkv_seq_open";
    assert_inval(pkv_seq_open(cache, &p, &out), open, "n_tokens 0");
    assert_null(out);
    p.n_tokens = 161;
    assert_inval(pkv_seq_open(cache, &p, &out), open, "160");
    p.n_tokens = UINT64_MAX;
    assert_inval(pkv_seq_open(cache, &p, &out), open, "n_tokens");
    p = seq_params_of(negative, 3);
    assert_inval(pkv_seq_open(cache, &p, &out), open, "-3");
    p = seq_params_of(NULL, 40);
    assert_inval(pkv_seq_open(cache, &p, &out), open, "neither tokens nor keys");
    assert_inval(pkv_seq_open(NULL, &p, &out), open, "NULL");
    assert_inval(pkv_seq_open(cache, NULL, &out), open, "NULL");
    assert_inval(pkv_seq_open(cache, &p, NULL), open, "NULL");
    end_cache(cache);
}

static void ready_keys_are_as_many_as_the_tokens_have(void **state)
{
    (void)state;
    pkv_cache *cache = keyed_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40), *out;
    const pkv_key keys[4] = {{{1}}, {{2}}, {{3}}, {{4}}};
    pkv_seq_params p = seq_params_of(NULL, 40);
    p.keys = keys;
    for (p.n_keys = 0; p.n_keys < 4; p.n_keys++) {
        if (p.n_keys != 2) {
            assert_inval(pkv_seq_open(cache, &p, &out), "pkv_seq_open", "n_keys");
            assert_null(out);
        }
    }
    end_cache(cache);
}

static void extras_out_of_order_are_refused(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40), *out;
    const pkv_media media[] = {{"b", 20, 4}, {"a", 4, 4}};
    const pkv_extras extras = {.media = media, .n_media = 2};
    pkv_seq_params p = seq_params_of(counting(), 40);
    p.extras = &extras;
    assert_inval(pkv_seq_open(cache, &p, &out), "pkv_seq_open", "media");
    assert_null(out);
    end_cache(cache);
}

static void params_of_other_versions_are_read_with_care(void **state)
{
    (void)state;
    struct {
        pkv_seq_params known;
        uint64_t later;
    } newer = {.later = 1};
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40), *out;
    newer.known = seq_params_of(counting(), 40);
    newer.known.struct_size = sizeof newer;
    assert_refused_call(pkv_seq_open(cache, &newer.known, &out), PKV_E_VERSION, "pkv_seq_open",
                        "struct_size");
    newer.later = 0;
    assert_ok(pkv_seq_open(cache, &newer.known, &out));
    newer.known.struct_size = 0;
    assert_inval(pkv_seq_open(cache, &newer.known, &out), "pkv_seq_open", "struct_size 0");
    /* an older caller knows nothing of keys: what lies behind is not read */
    newer.known.struct_size = offsetof(pkv_seq_params, keys);
    newer.known.keys = (const pkv_key *)(uintptr_t)1;
    assert_ok(pkv_seq_open(cache, &newer.known, &out));
    end_cache(cache);
}

static void allocate_params_of_other_versions_are_read_with_care(void **state)
{
    (void)state;
    struct {
        pkv_allocate_params known;
        uint64_t later;
    } newer = {.later = 1};
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 40);
    pkv_allocate_result r;
    newer.known = new_tokens(40);
    newer.known.struct_size = sizeof newer;
    assert_refused_call(pkv_seq_allocate(seq, &newer.known, &r), PKV_E_VERSION, "pkv_seq_allocate",
                        "struct_size");
    newer.known.struct_size = 4;
    assert_inval(pkv_seq_allocate(seq, &newer.known, &r), "pkv_seq_allocate", "struct_size 4");
    newer.known.struct_size = offsetof(pkv_allocate_params, external_tokens);
    newer.known.external_tokens = 1000000; /* not read */
    assert_ok(pkv_seq_allocate(seq, &newer.known, &r));
    assert_table(seq, 0, "1..3");
    struct {
        pkv_cache_params known;
        uint64_t later;
    } made = {.later = 1};
    pkv_cache *none;
    pkv_cache_params_init(&made.known);
    made.known.struct_size = sizeof made;
    assert_status(pkv_cache_create(&made.known, &none), PKV_E_VERSION);
    assert_null(none);
    end_cache(cache);
}

/* ---- allocate ---- */

static void an_allocate_outside_its_contract_changes_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    const char *f = "pkv_seq_allocate";
    pkv_allocate_result r;
    pkv_allocate_params p = new_tokens(0);
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "nothing to allocate");
    p.lookahead = 8; /* a lookahead alone is nothing */
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "nothing to allocate");
    p = new_tokens(121);
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "beyond max_model_len");
    p = new_tokens(1);
    p.external_tokens = 1;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "first allocation");
    p = new_tokens(1);
    p.use_cached = 1;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "first allocation");
    p.use_cached = 4;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "use_cached 4");
    p = new_tokens(UINT64_MAX);
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "beyond");
    p = new_tokens(1);
    p.lookahead = UINT64_MAX;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "beyond");
    p.lookahead = 0;
    p.reserved_blocks = UINT64_MAX;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "beyond");
    p.reserved_blocks = 0;
    p.in_flight_tokens = UINT64_MAX;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "beyond");
    const uint32_t groups[] = {0, 1};
    p = new_tokens(1);
    p.skip_zero_groups = groups;
    p.n_skip_zero_groups = 2;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "no such group");
    p.skip_zero_groups = NULL;
    assert_inval(pkv_seq_allocate(seq, &p, &r), f, "no such group");
    p = new_tokens(1);
    assert_inval(pkv_seq_allocate(NULL, &p, &r), f, "NULL");
    assert_inval(pkv_seq_allocate(seq, NULL, &r), f, "NULL");
    assert_inval(pkv_seq_allocate(seq, &p, NULL), f, "NULL");
    end_cache(cache);
}

static void external_tokens_are_tokens_of_the_request(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 32);
    pkv_seq *seq = open_n(cache, 40);
    pkv_allocate_params p = new_tokens(0);
    pkv_allocate_result r;
    p.external_tokens = 9; /* 32 are found, 8 are left */
    assert_inval(pkv_seq_allocate(seq, &p, &r), "pkv_seq_allocate", "more than the sequence has");
    p.external_tokens = UINT64_MAX;
    assert_inval(pkv_seq_allocate(seq, &p, &r), "pkv_seq_allocate", "beyond");
    p.external_tokens = 8;
    assert_ok(pkv_seq_allocate(seq, &p, &r));
    assert_int_equal(info_of(seq).computed, 40);
    end_cache(cache);
}

/* ---- while it lives ---- */

static void what_is_allocated_cannot_be_looked_up(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    pkv_hit hit;
    assert_inval(pkv_seq_lookup(seq, &hit), "pkv_seq_lookup", "allocated");
    assert_inval(pkv_seq_lookup(NULL, &hit), "pkv_seq_lookup", "NULL");
    assert_inval(pkv_seq_lookup(seq, NULL), "pkv_seq_lookup", "NULL");
    end_cache(cache);
}

static void tokens_that_cannot_be_appended(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    const int32_t bad[] = {3, -1};
    uint64_t n;
    assert_inval(pkv_seq_append(seq, counting(), 0), "pkv_seq_append", "0 tokens");
    assert_inval(pkv_seq_append(seq, counting(), 121), "pkv_seq_append", "max_model_len");
    assert_inval(pkv_seq_append(seq, counting(), UINT64_MAX), "pkv_seq_append", "max_model_len");
    assert_inval(pkv_seq_append(seq, bad, 2), "pkv_seq_append", "-1");
    assert_inval(pkv_seq_append(seq, NULL, 1), "pkv_seq_append", "NULL");
    assert_inval(pkv_seq_append(NULL, bad, 1), "pkv_seq_append", "NULL");
    (void)keys_of_seq(seq, &n);
    assert_int_equal(n, 2);
    assert_ok(pkv_seq_append(seq, counting(), 120)); /* just all */
    end_cache(cache);
}

static void keys_that_cannot_be_appended(void **state)
{
    (void)state;
    pkv_cache *cache = keyed_cache(20, 160);
    const pkv_key keys[3] = {{{1}}, {{2}}, {{3}}};
    pkv_seq *computed = run_n(cache, 40), *seq = computed;
    assert_inval(pkv_seq_append_keys(seq, keys, 1), "pkv_seq_append_keys", "not opened with keys");
    assert_inval(pkv_seq_append_keys(NULL, keys, 1), "pkv_seq_append_keys", "not opened");
    pkv_seq_params p = seq_params_of(NULL, 40);
    p.keys = keys;
    p.n_keys = 2;
    assert_ok(pkv_seq_open(cache, &p, &seq));
    assert_inval(pkv_seq_append_keys(seq, keys, 1), "pkv_seq_append_keys", "the tokens have 2");
    assert_inval(pkv_seq_append_keys(seq, keys, UINT64_MAX), "pkv_seq_append_keys", "have 2");
    assert_inval(pkv_seq_append_keys(seq, NULL, 1), "pkv_seq_append_keys", "");
    uint64_t n;
    (void)keys_of_seq(seq, &n);
    assert_int_equal(n, 2);
    end_cache(cache);
}

static void computed_lies_between_keyed_and_computed(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    assert_inval(pkv_seq_set_computed(seq, 41), "pkv_seq_set_computed", "41");
    assert_inval(pkv_seq_set_computed(seq, 31), "pkv_seq_set_computed", "32 (keyed)");
    assert_inval(pkv_seq_set_computed(NULL, 0), "pkv_seq_set_computed", "NULL");
    assert_ok(pkv_seq_set_computed(seq, 32));
    assert_inval(pkv_seq_set_computed(seq, 40), "pkv_seq_set_computed", "40");
    end_cache(cache);
}

static void only_computed_tokens_of_an_allocated_sequence_are_keyed(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    assert_inval(pkv_seq_cache(seq, 41), "pkv_seq_cache", "tokens 41");
    assert_inval(pkv_seq_cache(NULL, 0), "pkv_seq_cache", "");
    seq = open_n(cache, 40);
    assert_inval(pkv_seq_cache(seq, 0), "pkv_seq_cache", "allocated 0");
    end_cache(cache);
}

static void who_waits_cannot_be_preempted_or_forked(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 40), *child = (pkv_seq *)(uintptr_t)1;
    assert_inval(pkv_seq_preempt(seq), "pkv_seq_preempt", "not allocated");
    assert_inval(pkv_seq_preempt(NULL), "pkv_seq_preempt", "");
    assert_inval(pkv_seq_fork(seq, &child), "pkv_seq_fork", "not allocated");
    assert_null(child);
    assert_inval(pkv_seq_fork(NULL, &child), "pkv_seq_fork", "NULL");
    (void)take(seq, 40);
    assert_inval(pkv_seq_fork(seq, NULL), "pkv_seq_fork", "NULL");
    assert_ok(pkv_seq_preempt(seq));
    assert_inval(pkv_seq_preempt(seq), "pkv_seq_preempt", "not allocated");
    end_cache(cache);
}

static void a_fork_needs_the_keys_of_its_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = keyed_cache(20, 160);
    const pkv_key keys[2] = {{{1}}, {{2}}};
    pkv_seq_params p = seq_params_of(NULL, 40);
    p.keys = keys;
    p.n_keys = 2;
    pkv_seq *seq, *child;
    assert_ok(pkv_seq_open(cache, &p, &seq));
    (void)take(seq, 40);
    assert_ok(pkv_seq_append(seq, NULL, 8));
    assert_inval(pkv_seq_fork(seq, &child), "pkv_seq_fork", "keys of the last tokens");
    assert_null(child);
    end_cache(cache);
}

static void only_blocks_of_the_pool_are_evicted(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    const pkv_block blocks[] = {1, 20};
    assert_inval(pkv_cache_evict(cache, blocks, 2), "pkv_cache_evict", "block 20");
    assert_inval(pkv_cache_evict(cache, NULL, 1), "pkv_cache_evict", "NULL");
    assert_inval(pkv_cache_evict(NULL, blocks, 1), "pkv_cache_evict", "NULL");
    assert_ok(pkv_cache_evict(cache, NULL, 0));
    end_cache(cache);
}

static void a_reference_that_nobody_has_is_found(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_pool *pool = (pkv_pool *)(uintptr_t)pkv_cache_get_pool(cache);
    const pkv_block second = 2;
    (void)run_n(cache, 40);
    assert_ok(pkv_pool_share(pool, &second, 1));
    assert_status(pkv_cache_check(cache), PKV_E_CORRUPT);
    assert_error_text("pkv_cache_check", "block 2 has 2 references");
    assert_ok(pkv_pool_release(pool, &second, 1));
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_needs_a_plan),
        cmocka_unit_test(a_plan_whose_sizes_cannot_be_resolved_makes_no_cache),
        cmocka_unit_test(states_that_are_not_kept_allow_no_prefixes),
        cmocka_unit_test(a_sink_is_whole_blocks),
        cmocka_unit_test(a_drafter_that_looks_beyond_a_block_makes_no_cache),
        cmocka_unit_test(ids_of_blocks_are_below_2_to_the_31),
        cmocka_unit_test(a_cache_needs_a_known_hash),
        cmocka_unit_test(a_sequence_needs_tokens_within_the_longest_request),
        cmocka_unit_test(ready_keys_are_as_many_as_the_tokens_have),
        cmocka_unit_test(extras_out_of_order_are_refused),
        cmocka_unit_test(params_of_other_versions_are_read_with_care),
        cmocka_unit_test(allocate_params_of_other_versions_are_read_with_care),
        cmocka_unit_test(an_allocate_outside_its_contract_changes_nothing),
        cmocka_unit_test(external_tokens_are_tokens_of_the_request),
        cmocka_unit_test(what_is_allocated_cannot_be_looked_up),
        cmocka_unit_test(tokens_that_cannot_be_appended),
        cmocka_unit_test(keys_that_cannot_be_appended),
        cmocka_unit_test(computed_lies_between_keyed_and_computed),
        cmocka_unit_test(only_computed_tokens_of_an_allocated_sequence_are_keyed),
        cmocka_unit_test(who_waits_cannot_be_preempted_or_forked),
        cmocka_unit_test(a_fork_needs_the_keys_of_its_tokens),
        cmocka_unit_test(only_blocks_of_the_pool_are_evicted),
        cmocka_unit_test(a_reference_that_nobody_has_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
