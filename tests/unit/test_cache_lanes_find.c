/* test_cache_lanes_find.c  Which steps lanes take: each form of the search that the processor can
 * do, on steps that differ from their lanes in one thing, before pages that must not be touched.
 * PKV_SEED: where to begin. */
#define _DEFAULT_SOURCE

#include <sys/mman.h>

#include "twin_cache.h"

#include "seq/lanes.h"

enum { MOST = PKVI_LANE_GROUP, LANE = 3, PAGE = 1 << 16, BATCHES = 1000 };

/* So many bytes that end where memory ends. */
static void *at_the_end(size_t bytes)
{
    char *memory =
        mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED && bytes <= PAGE);
    assert_int_equal(mprotect(memory + PAGE, PAGE, PROT_NONE), 0);
    return memory + PAGE - bytes;
}

static void give_back(void *items, size_t bytes)
{
    assert_int_equal(munmap((char *)items + bytes - PAGE, (size_t)2 * PAGE), 0);
}

/* n steps of lanes LANE, LANE + 1, ... */
typedef struct scene {
    pkvi_lanes lanes;
    pkv_step *steps;
    int32_t *tokens, *column;
    size_t n;
} scene;

static void set_up_scene(scene *s, size_t n)
{
    *s = (scene){.n = n};
    s->lanes.batches = BATCHES;
    s->lanes.seqs = at_the_end((LANE + n) * sizeof *s->lanes.seqs);
    s->lanes.until = at_the_end((LANE + n) * sizeof *s->lanes.until);
    s->steps = at_the_end(n * sizeof *s->steps);
    s->tokens = at_the_end(n * sizeof *s->tokens);
    s->column = at_the_end(n * sizeof *s->column);
}

static void tear_down_scene(const scene *s)
{
    give_back(s->lanes.seqs, (LANE + s->n) * sizeof *s->lanes.seqs);
    give_back(s->lanes.until, (LANE + s->n) * sizeof *s->lanes.until);
    give_back(s->steps, s->n * sizeof *s->steps);
    give_back(s->tokens, s->n * sizeof *s->tokens);
    give_back(s->column, s->n * sizeof *s->column);
}

/* Steps that the lanes take; nobody looks at the sequences. */
static void fill(scene *s)
{
    for (size_t i = 0; i < LANE; i++) {
        s->lanes.seqs[i] = NULL;
        s->lanes.until[i] = 0;
    }
    for (size_t i = 0; i < s->n; i++) {
        pkv_seq *seq = (pkv_seq *)(uintptr_t)(64 * (random_below(1000) + 1));
        s->lanes.seqs[LANE + i] = seq;
        s->lanes.until[LANE + i] = BATCHES + 1 + (one_in(4) ? 1000000000 : 0);
        s->tokens[i] = one_in(4) ? INT32_MAX : (int32_t)random_below(100000);
        s->steps[i] = (pkv_step){seq, &s->tokens[i], 1, PKV_STEP_KEEP};
        s->column[i] = -7;
    }
}

enum { FAULTS = 12 };

/* What keeps a lane from its step. */
static void spoil(scene *s, size_t i, uint64_t fault)
{
    pkv_step *step = &s->steps[i];
    pkv_seq *other = (pkv_seq *)(uintptr_t)((uintptr_t)step->seq ^ (1ULL << random_below(64)));
    switch (fault) {
    case 0: step->seq = other; break;
    case 1: s->lanes.seqs[LANE + i] = NULL; break;
    case 2: s->lanes.until[LANE + i] = BATCHES; break;
    case 3: s->lanes.until[LANE + i] = 0; break;
    case 4: step->n_tokens = 0; break;
    case 5: step->n_tokens = 2; break;
    case 6: step->n_tokens = 1ULL << 32 | 1; break;
    case 7: step->computed = 0; break;
    case 8: step->computed = UINT32_MAX; break;
    case 9: step->tokens = NULL; break;
    case 10: s->tokens[i] = -1; break;
    default: s->tokens[i] = INT32_MIN; break;
    }
}

/* Lanes that stand empty and have not run for long, and a step that names nobody. */
static void spoil_both(scene *s, size_t i)
{
    s->steps[i].seq = s->lanes.seqs[LANE + i] = NULL;
    s->lanes.until[LANE + i] = 0;
}

static void assert_found(const scene *s, uint64_t slow)
{
    pkvi_lanes_find_slow *find;
    for (unsigned form = 0; (find = pkvi_lanes_find_of_cpu(form)) != NULL; form++) {
        for (size_t i = 0; i < s->n; i++) {
            s->column[i] = -7;
        }
        assert_int_equal(find(&s->lanes, LANE, s->steps, s->n, s->column), slow);
        for (size_t i = 0; i < s->n; i++) {
            assert_true((slow >> i & 1) || s->column[i] == s->tokens[i]);
        }
    }
}

static void a_lane_takes_a_step_that_is_like_it(void **state)
{
    (void)state;
    for (size_t n = 0; n <= MOST; n++) {
        scene s;
        set_up_scene(&s, n);
        fill(&s);
        assert_found(&s, 0);
        tear_down_scene(&s);
    }
}

static void a_lane_does_not_take_a_step_that_differs_in_one_thing(void **state)
{
    (void)state;
    scene s;
    set_up_scene(&s, 21); /* two times eight, and some */
    for (size_t i = 0; i < s.n; i++) {
        for (uint64_t fault = 0; fault < FAULTS; fault++) {
            fill(&s);
            spoil(&s, i, fault);
            assert_found(&s, 1ULL << i);
        }
        fill(&s);
        spoil_both(&s, i);
        assert_found(&s, 1ULL << i);
    }
    tear_down_scene(&s);
}

static void any_steps_may_differ(void **state)
{
    (void)state;
    const uint64_t seed = number_from("PKV_SEED", 1);
    random_state = seed % 2147483645 + 1;
    print_message("PKV_SEED=%" PRIu64 "\n", seed);
    for (int round = 0; round < 3000; round++) {
        scene s;
        uint64_t slow = 0;
        set_up_scene(&s, random_from(1, MOST));
        fill(&s);
        for (uint64_t left = random_below(s.n + 1); left > 0; left--) {
            const size_t i = random_below(s.n);
            if (!(slow >> i & 1)) {
                spoil(&s, i, random_below(FAULTS));
                slow |= 1ULL << i;
            }
        }
        assert_found(&s, slow);
        tear_down_scene(&s);
    }
}

static void there_is_at_least_one_form(void **state)
{
    (void)state;
    assert_non_null(pkvi_lanes_find_of_cpu(0));
    assert_null(pkvi_lanes_find_of_cpu(2));
}

int main(void)
{
    random_state = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_takes_a_step_that_is_like_it),
        cmocka_unit_test(a_lane_does_not_take_a_step_that_differs_in_one_thing),
        cmocka_unit_test(any_steps_may_differ),
        cmocka_unit_test(there_is_at_least_one_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
