/* lanes_find.c  Which steps of a batch their lanes take.
 *
 * Mostly all are such, and then this is what a step of the batch costs. So the wide form asks about
 * eight at once, and looks at them one by one only if some is another. (Measured in one loop: 1.5
 * ns a step one by one, 0.8 eight at once.) */
#include "seq/lanes.h"

static bool takes(const pkvi_lanes *l, size_t lane, const pkv_step *step)
{
    return l->seqs[lane] == step->seq && l->until[lane] > l->batches && step->n_tokens == 1 &&
           step->computed == PKV_STEP_KEEP && step->tokens && step->tokens[0] >= 0;
}

/* Steps [from, to) of a group. */
static uint64_t find_some(const pkvi_lanes *l, size_t lane, const pkv_step *steps, size_t from,
                          size_t to, int32_t *column)
{
    uint64_t slow = 0;
    for (size_t i = from; i < to; i++) {
        if (takes(l, lane + i, &steps[i])) {
            column[i] = steps[i].tokens[0];
        } else {
            slow |= 1ULL << i;
        }
    }
    return slow;
}

static uint64_t find_plain(const pkvi_lanes *l, size_t lane, const pkv_step *steps, size_t n,
                           int32_t *column)
{
    return find_some(l, lane, steps, 0, n, column);
}

#if defined(__x86_64__) && defined(__LP64__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512vl")))

/* A step is four numbers, two steps are a register: seq, tokens, n_tokens, computed. */
enum { AT_ONCE = 8, PAIRS = 4, BUT_TOKENS = 0xdd };
_Static_assert(sizeof(pkv_step) == 32 && offsetof(pkv_step, tokens) == 8 &&
                   offsetof(pkv_step, n_tokens) == 16 && offsetof(pkv_step, computed) == 24,
               "the wide form reads steps as numbers");

/* The pointers of eight steps. */
WIDE static inline __m512i tokens_of(const __m512i pairs[PAIRS])
{
    const __m512i second = _mm512_set_epi64(0, 0, 0, 0, 13, 9, 5, 1); /* 8: of the other register */
    const __m512i low = _mm512_permutex2var_epi64(pairs[0], second, pairs[1]);
    const __m512i high = _mm512_permutex2var_epi64(pairs[2], second, pairs[3]);
    return _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
}

/* Bits of steps, out of those of four numbers each. */
static unsigned steps_of(const unsigned others[PAIRS])
{
    unsigned steps = 0;
    for (int i = 0; i < PAIRS; i++) {
        steps |= ((others[i] & 0x0f) != 0 ? 1U : 0) << 2 * i;
        steps |= (others[i] > 0x0f ? 2U : 0) << 2 * i;
    }
    return steps;
}

/* Bits: those of eight steps that their lanes do not take. */
WIDE static inline unsigned look_at_eight(const pkvi_lanes *l, size_t lane, const pkv_step *steps,
                                          int32_t *column)
{
    const __m512i wanted = _mm512_set_epi64(-1, 1, 0, 0, -1, 1, 0, 0); /* -1: PKV_STEP_KEEP */
    const __m512i seqs = _mm512_loadu_si512(l->seqs + lane);
    const __m256i until = _mm256_loadu_si256((const __m256i *)(const void *)(l->until + lane));
    const __m256i batches = _mm256_set1_epi32((int32_t)l->batches);
    unsigned slow = _mm256_cmple_epi32_mask(until, batches), others[PAIRS];
    __m512i pairs[PAIRS];
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++) {
        const __m512i from = _mm512_set_epi64(15, 14, 13, 2 * i + 1, 11, 10, 9, 2 * i);
        pairs[i] = _mm512_loadu_si512(steps + (size_t)i * 2);
        others[i] = _mm512_mask_cmpneq_epi64_mask(BUT_TOKENS, pairs[i],
                                                  _mm512_permutex2var_epi64(seqs, from, wanted));
    }
    if ((others[0] | others[1] | others[2] | others[3]) != 0) {
        slow |= steps_of(others);
    }
    const __m512i tokens = tokens_of(pairs);
    slow |= _mm512_testn_epi64_mask(tokens, tokens); /* NULL */
    const __m256i zero = _mm256_setzero_si256();
    const __m256i read = _mm512_mask_i64gather_epi32(zero, (__mmask8)~slow, tokens, NULL, 1);
    slow |= _mm256_cmplt_epi32_mask(read, zero);
    _mm256_mask_storeu_epi32(column, (__mmask8)~slow, read);
    return slow;
}

WIDE static uint64_t find_wide(const pkvi_lanes *l, size_t lane, const pkv_step *steps, size_t n,
                               int32_t *column)
{
    uint64_t slow = 0;
    size_t i = 0;
    for (; n - i >= AT_ONCE; i += AT_ONCE) {
        slow |= (uint64_t)look_at_eight(l, lane + i, steps + i, column + i) << i;
    }
    return slow | find_some(l, lane, steps, i, n, column);
}

pkvi_lanes_find_slow *pkvi_lanes_find_of_cpu(unsigned i)
{
    static pkvi_lanes_find_slow *const all[] = {find_wide, find_plain, NULL};
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    return i < 2 ? all[i + !wide] : NULL;
}
#else
pkvi_lanes_find_slow *pkvi_lanes_find_of_cpu(unsigned i)
{
    return i == 0 ? find_plain : NULL;
}
#endif
