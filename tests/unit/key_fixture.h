/* key_fixture.h  What the tests of keys share. */
#ifndef KEY_FIXTURE_H
#define KEY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pkv/key.h>

enum { MAX_UNITS = 64, MAX_TEST_TOKENS = 1024 };

/* What one test hashes; zeros but for the fields that it sets. */
typedef struct ask {
    uint32_t hash;
    const char *seed;
    const uint8_t *cluster_seed;
    const pkv_extras *extras;
    const int32_t *tokens; /* NULL: 0, 1, 2, ... */
    uint64_t n_tokens, unit, lookahead;
} ask;

typedef struct chain_of_keys {
    uint64_t n;
    pkv_key keys[MAX_UNITS];
} chain_of_keys;

static inline const int32_t *counting_tokens(void)
{
    static int32_t tokens[MAX_TEST_TOKENS];
    for (int32_t i = 0; i < MAX_TEST_TOKENS; i++) {
        tokens[i] = i;
    }
    return tokens;
}

static inline pkv_hasher *make_hasher(uint32_t hash, const char *seed, const uint8_t *cluster_seed,
                                      const pkv_alloc *alloc)
{
    pkv_hasher *hasher;
    pkv_hasher_params params;
    pkv_hasher_params_init(&params);
    params.hash = hash;
    params.seed = seed;
    params.cluster_seed = cluster_seed;
    params.alloc = alloc;
    if (pkv_hasher_create(&params, &hasher) != PKV_OK) {
        fail_msg("%s", pkv_last_error());
    }
    return hasher;
}

/* All keys that there are. */
static inline chain_of_keys keys_of(ask a)
{
    chain_of_keys c = {0};
    pkv_hasher *hasher = make_hasher(a.hash, a.seed, a.cluster_seed, NULL);
    const int32_t *tokens = a.tokens ? a.tokens : counting_tokens();
    if (pkv_extras_check(a.extras, a.n_tokens) != PKV_OK) {
        fail_msg("%s", pkv_last_error());
    }
    c.n = pkv_key_count(a.n_tokens, a.unit, a.lookahead);
    assert_true(c.n <= MAX_UNITS);
    if (pkv_key_chain(hasher, a.extras, tokens, a.n_tokens, a.unit, a.lookahead, 0, c.n, NULL,
                      c.keys) != PKV_OK) {
        fail_msg("%s", pkv_last_error());
    }
    pkv_hasher_destroy(hasher);
    return c;
}

static inline bool same_key(const pkv_key *a, const pkv_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The key begins with these hex digits. */
static inline void assert_key(const pkv_key *key, const char *hex)
{
    char text[65];
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", key->bytes[i]);
    }
    text[strlen(hex)] = '\0';
    assert_string_equal(text, hex);
}

/* The keys of two requests agree in the first n units and nowhere else, for every function. */
static inline void assert_agree(ask a, ask b, uint64_t n)
{
    for (a.hash = 0; a.hash < PKV_N_HASHES; a.hash++) {
        b.hash = a.hash;
        const chain_of_keys x = keys_of(a), y = keys_of(b);
        assert_true(x.n >= n && y.n >= n);
        for (uint64_t i = 0; i < x.n && i < y.n; i++) {
            if (same_key(&x.keys[i], &y.keys[i]) != (i < n)) {
                fail_msg("%s: unit %d of %d that agree", pkv_hash_name(a.hash), (int)i, (int)n);
            }
        }
    }
}

/* Refused with that status and a text that begins with the function and holds `part`. */
static inline void assert_fails(pkv_status got, pkv_status want, const char *function,
                                const char *part)
{
    if (got != want) {
        fail_msg("%s instead of %s (%s)", pkv_status_name(got), pkv_status_name(want), part);
    }
    if (strncmp(pkv_last_error(), function, strlen(function)) != 0 ||
        !strstr(pkv_last_error(), part) || strchr(pkv_last_error(), '\n')) {
        fail_msg("\"%s\" lacks \"%s\"", pkv_last_error(), part);
    }
}

/* Hooks that count, and fail once. */
typedef struct counting {
    size_t calls, fail_at, live;
} counting;

static inline void *counted_alloc(void *ctx, size_t bytes, size_t align)
{
    counting *counter = ctx;
    if (++counter->calls == counter->fail_at) {
        return NULL;
    }
    void *ptr = aligned_alloc(align, (bytes + align - 1) / align * align);
    counter->live += ptr ? bytes : 0;
    return ptr;
}

static inline void counted_free(void *ctx, void *ptr, size_t bytes, size_t align)
{
    counting *counter = ctx;
    (void)align;
    counter->live -= bytes;
    free(ptr);
}

#endif
