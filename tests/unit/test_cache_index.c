/* test_cache_index.c  Content that is found by its tokens, or by chains of keys, is what would be
 * found by its keys: two caches of one plan get the same work. PKV_SEED, PKV_RANDOM_OPS:
 * twin_cache.h. */
#include "countdown.h"
#include "twin_index.h"

static void full_attention_finds_the_same(void **state)
{
    (void)state;
    for (uint64_t block = 4; block <= 16; block *= 2) {
        const pkv_spec layers[] = {full_of(block, 8)};
        const pkv_plan_params params = blocks_for(layers, 1, 480 / block, 20 * block);
        run_indices(&params);
    }
}

static void full_attention_beside_a_ring_finds_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), ring_of(16, 2048)};
    const pkv_plan_params params = blocks_for(layers, 2, 40, 320);
    run_indices(&params);
}

static void a_reference_window_finds_the_same(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_RSWA, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.rswa_window = 32;
    const pkv_spec layers[] = {finished(spec)};
    const pkv_plan_params params = blocks_for(layers, 1, 40, 320);
    run_indices(&params);
}

static void latent_attention_finds_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {latent(8, 576)};
    const pkv_plan_params params = blocks_for(layers, 1, 60, 160);
    run_indices(&params);
}

static void a_drafter_that_drops_blocks_finds_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = with_drop(blocks_for(layers, 1, 40, 320));
    run_indices(&params);
}

static void blocks_over_two_ranks_are_found_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(8, 8)};
    pkv_plan_params params = blocks_for(layers, 1, 40, 320);
    params.dcp = 2;
    run_indices(&params);
}

static void keys_that_look_ahead_are_found_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    run_looking_ahead(blocks_for(layers, 1, 50, 320));
}

/* ---- what belongs to content ---- */

enum { PROMPT = 64 };

/* What a request with some extras finds of what one with others has left; units of 16. */
static uint64_t found_after(const pkv_extras *left, const pkv_extras *asked)
{
    pkv_cache *cache = indexed_cache(20, 160, PKV_INDEX_TOKENS);
    pkv_seq_params params = seq_params_of(counting(), PROMPT);
    pkv_seq *seq;
    params.extras = left;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    (void)take(seq, PROMPT);
    close_seq(seq);
    params.extras = asked;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    const uint64_t hit = lookup(seq);
    close_seq(seq);
    end_cache(cache);
    return hit;
}

/* Equal extras find all but the last block, others so many tokens, in both directions. */
static void assert_apart(const pkv_extras *a, const pkv_extras *b, uint64_t shared)
{
    assert_int_equal(found_after(a, a), PROMPT - 16);
    assert_int_equal(found_after(b, b), PROMPT - 16);
    assert_int_equal(found_after(a, b), shared);
    assert_int_equal(found_after(b, a), shared);
}

static void adapters_share_nothing(void **state)
{
    (void)state;
    const pkv_extras a = {.lora_name = "a", .lora_path = "p"},
                     b = {.lora_name = "b", .lora_path = "p"};
    assert_apart(&a, &b, 0);
    assert_apart(&a, NULL, 0);
}

static void salts_share_nothing(void **state)
{
    (void)state;
    const pkv_extras a = {.salt = "a"}, b = {.salt = "b"};
    assert_apart(&a, &b, 0);
    assert_apart(&a, NULL, 0);
}

static void an_adapter_is_no_salt(void **state)
{
    (void)state;
    const pkv_extras a = {.lora_name = "a", .lora_path = "a"}, b = {.salt = "a"};
    assert_apart(&a, &b, 0);
}

static void images_share_what_is_before_them(void **state)
{
    (void)state;
    const pkv_media a = {"a", 20, 20}, b = {"b", 20, 20};
    const pkv_extras with_a = {.media = &a, .n_media = 1}, with_b = {.media = &b, .n_media = 1};
    assert_apart(&with_a, &with_b, 16);
    assert_apart(&with_a, NULL, 16);
}

static void an_image_elsewhere_is_other_content(void **state)
{
    (void)state;
    const pkv_media a = {"a", 20, 4}, b = {"a", 21, 4}, c = {"a", 36, 4};
    const pkv_extras at_20 = {.media = &a, .n_media = 1}, at_21 = {.media = &b, .n_media = 1},
                     at_36 = {.media = &c, .n_media = 1};
    assert_apart(&at_20, &at_21, 16);
    assert_apart(&at_20, &at_36, 16);
    assert_apart(&at_36, NULL, 32);
}

static void an_image_reaches_over_all_units_that_it_covers(void **state)
{
    (void)state;
    const pkv_media shorter = {"a", 10, 22}, longer = {"a", 10, 23}; /* to 32, and into the third */
    const pkv_extras a = {.media = &shorter, .n_media = 1}, b = {.media = &longer, .n_media = 1};
    assert_apart(&a, &b, 32);
}

static void a_second_image_counts_too(void **state)
{
    (void)state;
    const pkv_media two[] = {{"a", 4, 4}, {"b", 34, 4}}, other[] = {{"a", 4, 4}, {"c", 34, 4}};
    const pkv_extras a = {.media = two, .n_media = 2}, b = {.media = other, .n_media = 2},
                     first = {.media = two, .n_media = 1};
    assert_apart(&a, &b, 32);
    assert_apart(&a, &first, 32);
}

static void embeddings_share_what_is_equal_of_them(void **state)
{
    (void)state;
    uint8_t rows[2][PROMPT * 4] = {{0}};
    rows[1][40 * 4 + 3] = 1; /* token 40, in the third unit */
    const pkv_extras
        a = {.has_embeds = 1, .embeds = rows[0], .embed_row_bytes = 4, .n_embed_rows = PROMPT},
        b = {.has_embeds = 1, .embeds = rows[1], .embed_row_bytes = 4, .n_embed_rows = PROMPT};
    assert_apart(&a, &b, 32);
    assert_apart(&a, NULL, 0);
}

static void equal_tokens_share_what_is_equal_of_them(void **state)
{
    (void)state;
    for (uint64_t at = 0; at <= PROMPT; at++) {
        pkv_cache *cache = indexed_cache(20, 160, PKV_INDEX_TOKENS);
        warm(cache, PROMPT);
        pkv_seq *seq = open_tokens(cache, diverging(at), PROMPT);
        assert_int_equal(lookup(seq), least(at, PROMPT - 1) / 16 * 16);
        end_cache(cache);
    }
}

static void generated_tokens_are_content_as_well(void **state)
{
    (void)state;
    pkv_cache *cache = indexed_cache(20, 160, PKV_INDEX_TOKENS);
    pkv_seq *seq = run_n(cache, 20);
    assert_ok(pkv_seq_append(seq, counting() + 20, 28));
    (void)take(seq, 28);
    assert_int_equal(resend(cache, 60), 48);
    end_cache(cache);
}

static void what_was_loaded_is_found_when_it_is_keyed_by_hand(void **state)
{
    (void)state;
    pkv_cache *cache = indexed_cache(20, 160, PKV_INDEX_TOKENS);
    pkv_seq *seq = open_n(cache, PROMPT);
    pkv_allocate_params params = new_tokens(1);
    params.external_tokens = 48;
    params.delay_caching = 1;
    (void)allocate(seq, params);
    assert_int_equal(resend(cache, PROMPT), 0);
    assert_ok(pkv_seq_cache(seq, 32));
    assert_int_equal(resend(cache, PROMPT), 32);
    assert_ok(pkv_seq_cache(seq, 48));
    assert_int_equal(resend(cache, PROMPT), 48);
    end_cache(cache);
}

/* ---- keys on demand ---- */

static void keys_come_when_they_are_asked_for(void **state)
{
    (void)state;
    pkv_cache *by_tokens = indexed_cache(20, 160, PKV_INDEX_TOKENS);
    pkv_cache *by_keys = keyed_cache(20, 160);
    pkv_seq *a = run_n(by_tokens, 40), *b = run_n(by_keys, 40);
    uint64_t n[2];
    for (int round = 0; round < 3; round++) {
        const pkv_key *keys = keys_of_seq(a, &n[0]), *same = keys_of_seq(b, &n[1]);
        assert_int_equal(n[0], n[1]);
        assert_int_equal(n[0], info_of(a).n_tokens / 16);
        assert_memory_equal(keys, same, (size_t)n[0] * sizeof *keys);
        append(a, 7, 30);
        append(b, 7, 30);
    }
    end_cache(by_tokens);
    end_cache(by_keys);
}

static void keys_without_memory_are_asked_for_again(void **state)
{
    (void)state;
    countdown memory = {.left = UINT64_MAX};
    const pkv_alloc hooks = {.ctx = &memory, .alloc = counted_alloc, .free = counted_free};
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.alloc = &hooks;
    params.index = PKV_INDEX_TOKENS;
    pkv_cache *cache = full_cache_with(20, 160, params);
    pkv_seq *seq = run_n(cache, 40);
    const pkv_key *keys;
    uint64_t n;
    memory.left = 0;
    assert_status(pkv_seq_keys(seq, &keys, &n), PKV_E_NOMEM);
    assert_error_text("pkv_seq_keys", "out of memory");
    memory.left = UINT64_MAX;
    (void)keys_of_seq(seq, &n);
    assert_int_equal(n, 2);
    end_cache(cache);
    assert_int_equal(memory.held, 0);
}

/* ---- refusals ---- */

static void assert_no_cache(const pkv_plan_params *plan_params, uint32_t index, event_log *log,
                            pkv_status wanted, const char *text)
{
    pkv_cache_params params = cache_params_of(NULL, log);
    params.index = index;
    assert_no_cache_with(plan_params, params, wanted, text);
}

static void tokens_alone_cannot_serve_every_cache(void **state)
{
    (void)state;
    static event_log log;
    const pkv_spec layers[] = {full()};
    pkv_plan_params one = blocks_for(layers, 1, 20, 160);
    assert_no_cache(&one, PKV_INDEX_TOKENS, &log, PKV_E_UNSUPPORTED, "events");
    one.draft_method = PKV_DRAFT_EAGLE;
    one.draft_tokens = 1;
    assert_no_cache(&one, PKV_INDEX_TOKENS, NULL, PKV_E_UNSUPPORTED, "look ahead");
    one.draft_method = PKV_DRAFT_NONE;
    one.draft_tokens = 0;
    one.caching = 0;
    assert_no_cache(&one, PKV_INDEX_TOKENS, NULL, PKV_E_UNSUPPORTED, "caching");
}

static void chains_cannot_serve_every_cache(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params one = blocks_for(layers, 1, 20, 160);
    one.caching = 0;
    assert_no_cache(&one, PKV_INDEX_CHAINS, NULL, PKV_E_UNSUPPORTED, "caching");
}

static pkv_cache *told_cache(uint32_t index, event_log *log)
{
    pkv_cache_params params = cache_params_of(NULL, log);
    params.index = index;
    return full_cache_with(20, 160, params);
}

/* Whether the pool of a cache finds the first key of a prompt that is cached. */
static bool finds_key(uint32_t index, event_log *log)
{
    pkv_cache *cache = told_cache(index, log);
    uint64_t n;
    const uint32_t group = 0;
    pkv_block id;
    const pkv_key *keys = keys_of_seq(run_n(cache, 40), &n);
    const pkv_pool *pool = pkv_cache_get_pool(cache);
    const bool found = pkv_pool_lookup(pool, keys, &group, 1, &id) == PKV_OK;
    assert_true(!found || id == 1);
    end_cache(cache);
    return found;
}

/* What was loaded has no keys before it is keyed by hand: by both sequences of a fork. */
static void blocks_that_a_fork_shares_are_told_once(void **state)
{
    (void)state;
    for (uint32_t index = PKV_INDEX_KEYS; index <= PKV_INDEX_CHAINS; index++) {
        static event_log log;
        log.n = 0;
        pkv_cache *cache = told_cache(index, &log);
        pkv_seq *seq = open_n(cache, PROMPT), *child;
        pkv_allocate_params params = new_tokens(1);
        params.external_tokens = 48;
        params.delay_caching = 1;
        (void)allocate(seq, params);
        assert_ok(pkv_seq_fork(seq, &child));
        assert_int_equal(log.n, 0);
        assert_ok(pkv_seq_cache(seq, 32));
        assert_ok(pkv_seq_cache(child, 48));
        assert_int_equal(log.n, 2);
        assert_stored(&log, 0, 0, 2, 0, 32);
        assert_stored(&log, 1, 0, 1, 0, 48); /* the range of the call, and the one new key */
        assert_ok(pkv_seq_cache(seq, 48));
        assert_int_equal(log.n, 2);
        end_cache(cache);
    }
}

static void only_the_index_of_keys_finds_a_key_by_itself(void **state)
{
    (void)state;
    static event_log log;
    assert_true(finds_key(PKV_INDEX_KEYS, NULL));
    assert_true(finds_key(PKV_INDEX_KEYS, &log));
    assert_false(finds_key(PKV_INDEX_CHAINS, NULL));
    assert_false(finds_key(PKV_INDEX_AUTO, NULL));
    assert_false(finds_key(PKV_INDEX_AUTO, &log));
}

static void an_unknown_index_makes_no_cache(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    assert_no_cache(&params, PKV_INDEX_CHAINS + 1, NULL, PKV_E_INVAL, "index 4");
}

static void ready_keys_are_of_no_use_without_an_index_of_keys(void **state)
{
    (void)state;
    static const pkv_key keys[2];
    pkv_seq_params params = seq_params_of(counting(), 40);
    pkv_cache *cache = indexed_cache(20, 160, PKV_INDEX_AUTO);
    pkv_seq *seq;
    params.keys = keys;
    params.n_keys = 2;
    assert_status(pkv_seq_open(cache, &params, &seq), PKV_E_INVAL);
    assert_error_text("pkv_seq_open", "PKV_INDEX_KEYS");
    assert_null(seq);
    seq = open_n(cache, 40);
    assert_status(pkv_seq_append_keys(seq, keys, 1), PKV_E_INVAL);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_attention_finds_the_same),
        cmocka_unit_test(full_attention_beside_a_ring_finds_the_same),
        cmocka_unit_test(a_reference_window_finds_the_same),
        cmocka_unit_test(latent_attention_finds_the_same),
        cmocka_unit_test(a_drafter_that_drops_blocks_finds_the_same),
        cmocka_unit_test(blocks_over_two_ranks_are_found_the_same),
        cmocka_unit_test(keys_that_look_ahead_are_found_the_same),
        cmocka_unit_test(adapters_share_nothing),
        cmocka_unit_test(salts_share_nothing),
        cmocka_unit_test(an_adapter_is_no_salt),
        cmocka_unit_test(images_share_what_is_before_them),
        cmocka_unit_test(an_image_elsewhere_is_other_content),
        cmocka_unit_test(an_image_reaches_over_all_units_that_it_covers),
        cmocka_unit_test(a_second_image_counts_too),
        cmocka_unit_test(embeddings_share_what_is_equal_of_them),
        cmocka_unit_test(equal_tokens_share_what_is_equal_of_them),
        cmocka_unit_test(generated_tokens_are_content_as_well),
        cmocka_unit_test(what_was_loaded_is_found_when_it_is_keyed_by_hand),
        cmocka_unit_test(keys_come_when_they_are_asked_for),
        cmocka_unit_test(keys_without_memory_are_asked_for_again),
        cmocka_unit_test(tokens_alone_cannot_serve_every_cache),
        cmocka_unit_test(chains_cannot_serve_every_cache),
        cmocka_unit_test(only_the_index_of_keys_finds_a_key_by_itself),
        cmocka_unit_test(blocks_that_a_fork_shares_are_told_once),
        cmocka_unit_test(an_unknown_index_makes_no_cache),
        cmocka_unit_test(ready_keys_are_of_no_use_without_an_index_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
