/* words.h  Numbers as bytes of a fixed order. */
#ifndef PKVI_WORDS_H
#define PKVI_WORDS_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PKVI_BIG32(x) __builtin_bswap32(x)
#define PKVI_BIG64(x) __builtin_bswap64(x)
#define PKVI_LITTLE32(x) (x)
#define PKVI_LITTLE64(x) (x)
#else
#define PKVI_BIG32(x) (x)
#define PKVI_BIG64(x) (x)
#define PKVI_LITTLE32(x) __builtin_bswap32(x)
#define PKVI_LITTLE64(x) __builtin_bswap64(x)
#endif

static inline void pkvi_put_be32(uint8_t *to, uint32_t value)
{
    value = PKVI_BIG32(value);
    memcpy(to, &value, sizeof value);
}

static inline void pkvi_put_be64(uint8_t *to, uint64_t value)
{
    value = PKVI_BIG64(value);
    memcpy(to, &value, sizeof value);
}

static inline void pkvi_put_le32(uint8_t *to, uint32_t value)
{
    value = PKVI_LITTLE32(value);
    memcpy(to, &value, sizeof value);
}

static inline void pkvi_put_le64(uint8_t *to, uint64_t value)
{
    value = PKVI_LITTLE64(value);
    memcpy(to, &value, sizeof value);
}

/* Returns the end. */
static inline uint8_t *pkvi_put_le32s(uint8_t *to, const int32_t *values, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    enum { AT_ONCE = 16 }; /* a size that needs no call */
    for (; n >= AT_ONCE; n -= AT_ONCE) {
        memcpy(to, values, 4 * AT_ONCE);
        to += 4 * AT_ONCE;
        values += AT_ONCE;
    }
#endif
    for (; n > 0; n--) {
        pkvi_put_le32(to, (uint32_t)*values++);
        to += 4;
    }
    return to;
}

static inline uint64_t pkvi_get_be64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return PKVI_BIG64(value);
}

#endif
