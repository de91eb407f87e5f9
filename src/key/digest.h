/* digest.h  The two digests under the key functions. */
#ifndef PKVI_DIGEST_H
#define PKVI_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/xxh3.h"

void pkvi_sha256(const void *data, size_t bytes, uint8_t out[32]);

/* The same of a message with PKVI_MESSAGE_SLACK writable bytes behind it. It also goes to `copy`:
 * what waits for it need not read it back from `out`, in whose small stores a wider load would get
 * stuck. */
void pkvi_sha256_padded(uint8_t *message, size_t bytes, uint8_t out[32], uint8_t *copy);

/* XXH3-128; as bytes it is a big-endian number. */
XXH128_hash_t pkvi_xxh3(const uint8_t *message, size_t bytes);

#endif
