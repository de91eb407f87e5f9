/* digest.h  The two digests under the key functions. */
#ifndef PKVI_DIGEST_H
#define PKVI_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include <pkv/key.h>

void pkvi_sha256(const void *data, size_t bytes, uint8_t out[32]);

/* The digest of a message with PKVI_MESSAGE_SLACK writable bytes behind it: SHA-256, or XXH3-128 as
 * a big-endian number. Its 32 or 16 bytes also go to `copy`: what waits for them need not read them
 * back from `out`, in whose small stores a wider load would get stuck. */
void pkvi_digest(uint32_t hash, uint8_t *message, size_t bytes, pkv_key *out, uint8_t *copy);

#endif
