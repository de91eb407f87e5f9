/* chain_xxh3.c  The loop of XXH3 for all processors, and the choice. */
#include "key/hasher.h"

#define CHAIN_NAME pkvi_chain_xxh3
#define CHAIN_TARGET
typedef char forms; /* nothing is prepared */
#define CHAIN_FORMS const forms f = 0
#define CHAIN_TOKENS(to, tokens, n) ((void)f, pkvi_cbor_put_tokens(to, tokens, n))
#include "key/chain_xxh3.h"

pkvi_chain *pkvi_chain_choose_xxh3(void)
{
#ifdef __x86_64__
    if (pkvi_cbor_choose_put_tokens() == pkvi_cbor_put_tokens_avx512) {
        return pkvi_chain_xxh3_avx512;
    }
#endif
    return pkvi_chain_xxh3;
}
