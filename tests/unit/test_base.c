/* test_base.c  Error texts, size arithmetic, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pkv/version.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/math.h"

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int number = 0; number >= PKV_E_AMBIGUOUS; number--) {
        const char *name = pkv_status_name((pkv_status)number);
        assert_non_null(name);
        assert_string_not_equal(name, "PKV_E_UNKNOWN");
        for (int other = 0; other > number; other--) {
            assert_string_not_equal(name, pkv_status_name((pkv_status)other));
        }
    }
    assert_string_equal(pkv_status_name((pkv_status)1), "PKV_E_UNKNOWN");
    assert_string_equal(pkv_status_name((pkv_status)-999), "PKV_E_UNKNOWN");
}

static void a_failure_keeps_its_text(void **state)
{
    (void)state;
    assert_int_equal(pkvi_fail(PKV_E_VALUE, "pkv_f: field %d", 7), PKV_E_VALUE);
    assert_string_equal(pkv_last_error(), "pkv_f: field 7");
    pkvi_error_context("pkv_g", "layer %d", 3);
    assert_string_equal(pkv_last_error(), "pkv_g: layer 3: field 7");
}

static void a_long_text_is_cut_between_characters(void **state)
{
    (void)state;
    char text[1001] = "";
    for (size_t i = 0; i < 1000; i += 2) {
        memcpy(text + i, "\xc3\xa4", 2); /* a with two dots */
    }
    assert_int_equal(pkvi_fail(PKV_E_INVAL, "%s", text), PKV_E_INVAL);
    assert_int_equal(strlen(pkv_last_error()) % 2, 0);
    assert_in_range(strlen(pkv_last_error()), 508, 511);
    assert_int_equal(pkvi_fail(PKV_E_INVAL, "x%s", text), PKV_E_INVAL);
    assert_int_equal(strlen(pkv_last_error()) % 2, 1);
    assert_in_range(strlen(pkv_last_error()), 508, 511);
    pkvi_error_context("pkv_g", "%s", text);
    assert_in_range(strlen(pkv_last_error()), 508, 511);
}

static void sizes_end_at_int64_max(void **state)
{
    (void)state;
    const uint64_t max = INT64_MAX;
    uint64_t out;
    assert_true(pkvi_add(max - 1, 1, &out) && out == max);
    assert_false(pkvi_add(max, 1, &out));
    assert_false(pkvi_add(UINT64_MAX, 1, &out));
    assert_true(pkvi_mul(max, 1, &out) && out == max);
    assert_true(pkvi_mul(UINT64_MAX, 0, &out) && out == 0);
    assert_false(pkvi_mul(max / 2 + 1, 2, &out));
    assert_false(pkvi_mul(UINT64_MAX, UINT64_MAX, &out));
    assert_true(pkvi_round_up(max - 1, 2, &out) && out == max - 1);
    assert_false(pkvi_round_up(max, 2, &out));
    assert_true(pkvi_round_up(0, 16, &out) && out == 0);
    assert_int_equal(pkvi_ceil_div(UINT64_MAX, 1), UINT64_MAX);
    assert_int_equal(pkvi_ceil_div(9, 4), 3);
    assert_true(pkvi_lcm(12, 18, &out) && out == 36);
    assert_false(pkvi_lcm(max, max - 1, &out));
}

typedef struct counting {
    size_t calls, fail_at, live;
} counting;

static void *counted_alloc(void *ctx, size_t bytes, size_t align)
{
    counting *counter = ctx;
    (void)align;
    if (++counter->calls == counter->fail_at) return NULL;
    void *ptr = malloc(bytes);
    if (ptr) counter->live += bytes;
    return ptr;
}

static void counted_free(void *ctx, void *ptr, size_t bytes, size_t align)
{
    counting *counter = ctx;
    (void)align;
    counter->live -= bytes;
    free(ptr);
}

static void an_arena_gives_back_what_it_took(void **state)
{
    (void)state;
    counting counter = {0};
    const pkv_alloc hooks = {&counter, counted_alloc, counted_free};
    pkvi_arena arena;
    pkvi_arena_init(&arena, &hooks, 64);
    for (size_t n = 0; n < 1000; n++) {
        unsigned char *piece = pkvi_arena_get(&arena, n, 3);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % 16, 0);
        for (size_t i = 0; i < 3 * n; i++) {
            assert_int_equal(piece[i], 0);
        }
        memset(piece, 0xff, 3 * n);
    }
    assert_true(counter.calls < 32); /* chunks double */
    pkvi_arena_free(&arena);
    assert_int_equal(counter.live, 0);
    pkvi_arena_free(&arena);
}

static void an_arena_refuses_what_it_cannot_give(void **state)
{
    (void)state;
    counting counter = {.fail_at = 2};
    const pkv_alloc hooks = {&counter, counted_alloc, counted_free};
    pkvi_arena arena;
    pkvi_arena_init(&arena, &hooks, 64);
    assert_null(pkvi_arena_get(&arena, SIZE_MAX, 2));
    assert_null(pkvi_arena_get(&arena, 1, SIZE_MAX));
    assert_null(pkvi_arena_get(&arena, 1, SIZE_MAX - 40));
    assert_non_null(pkvi_arena_text(&arena, "text"));
    assert_null(pkvi_arena_get(&arena, 1, 4096)); /* the hooks' second call */
    assert_non_null(pkvi_arena_get(&arena, 1, 4096));
    pkvi_arena_free(&arena);
    assert_int_equal(counter.live, 0);
}

static void libc_memory_has_the_alignment_asked_for(void **state)
{
    (void)state;
    for (size_t align = 1; align <= 4096; align *= 2) {
        void *ptr = pkvi_libc_alloc.alloc(NULL, 3 * align + 1, align);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % align, 0);
        pkvi_libc_alloc.free(NULL, ptr, 3 * align + 1, align);
    }
    assert_null(pkvi_libc_alloc.alloc(NULL, SIZE_MAX, 4096));
    assert_null(pkvi_libc_alloc.alloc(NULL, SIZE_MAX - 4096, 16));
}

/* Two thirds of one page, of two and of three, and more. */
static void tables_that_fill_huge_pages_begin_with_one(void **state)
{
    (void)state;
    const size_t page = (size_t)2 << 20;
    const size_t sizes[] = {page / 3 * 2, page,         2 * page / 3 * 2, 2 * page,
                            2 * page + 1, 3 * page + 1, 100 * page + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *ptr = pkvi_libc_alloc.alloc(NULL, sizes[i], 16);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % page, 0);
        ptr[sizes[i] - 1] = 1;
        pkvi_libc_alloc.free(NULL, ptr, sizes[i], 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(a_failure_keeps_its_text),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(sizes_end_at_int64_max),
        cmocka_unit_test(an_arena_gives_back_what_it_took),
        cmocka_unit_test(an_arena_refuses_what_it_cannot_give),
        cmocka_unit_test(libc_memory_has_the_alignment_asked_for),
        cmocka_unit_test(tables_that_fill_huge_pages_begin_with_one),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
