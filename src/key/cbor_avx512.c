/* cbor_avx512.c  Tokens in canonical CBOR, eight at once, for processors with AVX-512 and VBMI2;
 * and the loop of XXH3 with them, chain_xxh3.h.
 *
 * A token is a 64-bit lane: head, four bytes of the number from high to low, three unused ones.
 * What a form leaves out is squeezed out of the vector. */
#include "key/hasher.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")))

/* One form of a lane: the head, and the top bit of every byte that belongs to the form. */
#define FORM(head, b1, b2, b3, b4)                                               \
    ((long long)((uint64_t)(head) | (uint64_t)(b1) << 8 | (uint64_t)(b2) << 16 | \
                 (uint64_t)(b3) << 24 | (uint64_t)(b4) << 32))

enum { KEEP = 0x80, LANES = 8 };

/* What every vector needs; a chain keeps it in registers. */
typedef struct forms {
    __m512i order, one, two, three, five, bits;
    __m256i limits[3];
} forms;

/* The compiler would make a constant again for every message. */
#define KEEP_IN_REGISTER(vector) __asm__("" : "+v"(vector))

TARGET static inline forms make_forms(void)
{
    forms f = {
        /* byte 0 of a lane becomes 0, as byte 32 is; bytes 1 to 4 the number, big-endian */
        .order = _mm512_set_epi64(0x1c1d1e1f20, 0x18191a1b20, 0x1415161720, 0x1011121320,
                                  0x0c0d0e0f20, 0x08090a0b20, 0x0405060720, 0x0001020320),
        .one = _mm512_set1_epi64(FORM(0, 0, 0, 0, KEEP)),
        .two = _mm512_set1_epi64(FORM(KEEP | 24, 0, 0, 0, KEEP)),
        .three = _mm512_set1_epi64(FORM(KEEP | 25, 0, 0, KEEP, KEEP)),
        .five = _mm512_set1_epi64(FORM(KEEP | 26, KEEP, KEEP, KEEP, KEEP)),
        .bits = _mm512_set1_epi64(0x7f),
        .limits = {_mm256_set1_epi32(23), _mm256_set1_epi32(0xff), _mm256_set1_epi32(0xffff)},
    };
    KEEP_IN_REGISTER(f.order);
    KEEP_IN_REGISTER(f.one);
    KEEP_IN_REGISTER(f.two);
    KEEP_IN_REGISTER(f.three);
    KEEP_IN_REGISTER(f.five);
    KEEP_IN_REGISTER(f.bits);
    KEEP_IN_REGISTER(f.limits[0]);
    KEEP_IN_REGISTER(f.limits[1]);
    KEEP_IN_REGISTER(f.limits[2]);
    return f;
}

/* Writes the first `lanes` of eight tokens; returns the end. */
TARGET static inline uint8_t *put_lanes(const forms *f, uint8_t *to, __m256i tokens, __mmask8 lanes)
{
    const __m512i big = _mm512_permutexvar_epi8(f->order, _mm512_zextsi256_si512(tokens));
    __m512i form = f->one;
    form = _mm512_mask_mov_epi64(form, _mm256_cmpgt_epi32_mask(tokens, f->limits[0]), f->two);
    form = _mm512_mask_mov_epi64(form, _mm256_cmpgt_epi32_mask(tokens, f->limits[1]), f->three);
    form = _mm512_mask_mov_epi64(form, _mm256_cmpgt_epi32_mask(tokens, f->limits[2]), f->five);
    if (lanes != 0xff) {
        form = _mm512_maskz_mov_epi64(lanes, form);
    }
    const __m512i words =
        _mm512_ternarylogic_epi64(big, form, f->bits, 0xf8); /* big | form & bits */
    const __mmask64 keep = _mm512_movepi8_mask(form);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(keep, words));
    return to + __builtin_popcountll(keep);
}

TARGET static inline uint8_t *put_tokens(const forms *f, uint8_t *to, const int32_t *tokens,
                                         size_t n)
{
    for (; n >= LANES; n -= LANES) {
        to = put_lanes(f, to, _mm256_loadu_si256((const __m256i *)(const void *)tokens), 0xff);
        tokens += LANES;
    }
    if (n > 0) {
        const __mmask8 lanes = (__mmask8)((1u << n) - 1);
        to = put_lanes(f, to, _mm256_maskz_loadu_epi32(lanes, tokens), lanes);
    }
    return to;
}

TARGET uint8_t *pkvi_cbor_put_tokens_avx512(uint8_t *to, const int32_t *tokens, size_t n)
{
    const forms f = make_forms();
    return put_tokens(&f, to, tokens, n);
}

#define CHAIN_NAME pkvi_chain_xxh3_avx512
#define CHAIN_TARGET TARGET
#define CHAIN_FORMS const forms f = make_forms()
#define CHAIN_TOKENS(to, tokens, n) put_tokens(f, to, tokens, n)
#include "key/chain_xxh3.h"
#endif
