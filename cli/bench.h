/* bench.h  Time, figures, cold memory and ceilings of `pagedkv bench`.
 *
 * A figure is what one operation takes, beside a ceiling that is measured in the same run (what
 * this machine needs for the memory that any implementation must touch, or for the bytes that it
 * must digest) and beside the bound that was demanded. Medians and ratios are over the runs.
 *
 * Most figures are taken twice. Hot: the operation was done just before. Cold: all memory of the
 * library object, and of the request, was flushed out of all caches just before. */
#ifndef BENCH_H
#define BENCH_H

#include "cli.h"

enum { BENCH_UNIT = 16, BENCH_MAX_RUNS = 1000, BENCH_MAX_ROWS = 24, BENCH_US = 1000 };

/* Nanoseconds of a clock that never goes back. */
double bench_now(void);
/* What must not fail: a line on stderr and exit code 3. */
void bench_need(bool condition, const char *what);
void *bench_memory(size_t n, size_t bytes);
/* The next number of a generator with 64 bits of state. */
uint64_t bench_random(uint64_t *state);
/* The numbers first ... first + n - 1 in random order. */
void bench_shuffle(uint32_t *out, size_t n, uint32_t first, uint64_t *state);
/* Tokens of a vocabulary of 128,256. */
void bench_tokens(int32_t *tokens, uint64_t n, uint64_t *state);
/* Name of the CPU as the system tells it. */
const char *bench_cpu(char text[128]);
/* The value that a share of others is below; sorts them. 0.5: the median. */
double bench_quantile(double *values, size_t n, double share);

/* ---- figures ---- */

typedef enum bench_set { HOT, COLD, N_SETS } bench_set;

typedef struct bench_row {
    const char *name, *unit; /* "take_release", "ns/block" */
    const char *ceiling;     /* what its ceiling is made of; NULL: the row has none */
    const char *bound;       /* the most that was demanded; NULL: the row has none */
    const char *cold_bound;  /* the same for cold; NULL: as hot */
    bool one_set;            /* neither hot nor cold */
} bench_row;

/* One run's value, in the unit of the row. Without a ceiling or a bound: 0. */
typedef struct bench_sample {
    double value, ceiling, bound;
} bench_sample;

typedef struct bench_table {
    bench_row rows[BENCH_MAX_ROWS];
    bench_sample *samples[BENCH_MAX_ROWS][N_SETS]; /* [runs] */
    size_t n_rows, runs;
} bench_table;

/* `rows` with a NULL name at their end; their names and texts are borrowed. */
void bench_table_init(bench_table *table, const bench_row *rows, size_t runs);
void bench_table_free(bench_table *table);
void bench_add(bench_table *table, size_t run, size_t row, bench_set set, bench_sample sample);
double bench_median(const bench_table *table, size_t row, bench_set set);
/* All rows, for people. */
void bench_print(const bench_table *table);
/* [{"name", "set", "unit", "value", "least", "most", "ceiling", "ceiling_value", "ratio", "bound",
 * "bound_value", "met"}]; set: "hot", "cold" or null; ratio: ceiling / value, the median over the
 * runs; met: the median of value / bound is at most 1. Null where there is no ceiling or bound. */
json_t *bench_json(const bench_table *table);
/* A table into the answer by its name, or with a title onto the screen. */
void bench_tell(const bench_table *table, json_t *answer, const char *name, const char *title);

/* ---- memory of library objects, and cold memory ---- */

/* What the hooks gave out and what was not taken back. Frees itself with the last of it. */
typedef struct bench_heap {
    size_t bytes; /* that the library asked for */
    struct bench_piece *pieces;
    size_t *unused; /* places in pieces */
    size_t n_pieces, n_unused, room;
} bench_heap;

/* Zero it first. */
pkv_alloc bench_hooks(bench_heap *heap);
/* Memory of malloc(), for free(); NULL: none. */
void *bench_pages(size_t bytes, size_t align);
void bench_heap_free(bench_heap *heap);
/* Pushes memory out of all caches; bench_chilled() ends it, and so forgets most page addresses. */
void bench_chill_heap(const bench_heap *heap);
void bench_chill(const void *memory, size_t bytes);
void bench_chilled(void);
/* How that is done on this machine. */
const char *bench_chill_name(void);

/* ---- ceilings ---- */

/* n nodes of 16 or 64 bytes in random order: what a pool or an index needs for each block. */
typedef struct bench_nodes bench_nodes;

bench_nodes *bench_nodes_new(size_t n, size_t bytes);
void bench_nodes_free(bench_nodes *nodes);
/* ns of one of the first n nodes, all words, in an order that is known ahead; and as a linked
 * list. */
double bench_nodes_read(bench_nodes *nodes, size_t n, bench_set set);
double bench_nodes_chase(bench_nodes *nodes, size_t n, bench_set set);

/* The same bytes in one place, and n times in a row. */
typedef struct bench_twins {
    uint8_t *a, *b; /* [bytes], [n][bytes] */
    size_t bytes, n;
    uint64_t state;
} bench_twins;

void bench_twins_init(bench_twins *twins, size_t bytes, size_t n);
void bench_twins_free(bench_twins *twins);
/* ns of memcmp() and memcpy() of the one place and one of the row: hot the first, cold any, after
 * all of the row was flushed. */
double bench_compare(bench_twins *twins, bench_set set);
double bench_copy(bench_twins *twins, bench_set set);

/* Chained: each message holds the digest before it. Inline: XXH3 is compiled in. */
typedef enum bench_how { BENCH_ALONE, BENCH_CHAINED, BENCH_CHAINED_INLINE } bench_how;

/* ns of one key's digest by libcrypto or libxxhash alone, over messages of the lengths that these
 * tokens have: hot one message again and again, cold one after the other out of memory that was
 * flushed. hash: SHA256_CBOR, XXHASH_CBOR, PKV_XXH3. */
double bench_digest(const int32_t *tokens, size_t n_keys, uint32_t hash, bench_how how,
                    bench_set set);

typedef struct bench_messages {
    uint8_t *at;           /* the first one */
    const size_t *lengths; /* [n] */
    size_t n, apart;       /* 1: they lie one after the other; 0: all in the same place */
    size_t parent;         /* chained: where a message holds the digest before it */
    uint8_t *out;          /* else: [n, 32], or [32] for all that lie in the same place */
} bench_messages;

typedef void bench_digest_function(const uint8_t *message, size_t n, uint8_t *to);

/* The function is a part of the loop. */
__attribute__((always_inline)) static inline void bench_digest_all(const bench_messages *m,
                                                                   bench_digest_function *digest)
{
    uint8_t *message = m->at, *out = m->out;
    for (size_t i = 0; i < m->n; i++) {
        uint8_t *next = message + m->apart * m->lengths[i];
        digest(message, m->lengths[i], out ? out : next + m->parent);
        message = next;
        out = out ? out + m->apart * 32 : NULL;
    }
}

void bench_xxh3_inline(const bench_messages *messages);

/* ---- caches ---- */

/* One group of full attention, or a second one as well. */
typedef enum bench_layers {
    BENCH_FULL,
    BENCH_WINDOW,
    BENCH_STATES, /* recurrent ones */
    BENCH_SIZES   /* a window; the blocks of full attention are twice as long */
} bench_layers;

typedef struct bench_cache_params {
    uint64_t blocks, max_model_len;
    bench_layers layers;
    bool caching;
    bool dense;      /* every block of the second group can be found, not only ends of prompts */
    pkv_index index; /* AUTO: nobody wants the keys of blocks */
    bench_heap *heap;
} bench_cache_params;

pkv_cache *bench_cache(const bench_cache_params *params);
/* Hands out all blocks once and gives them back, so that the free list is in no order that memory
 * could follow. All sequences are closed; nothing is cached then. */
void bench_scramble(pkv_cache *cache, uint64_t *state);
pkv_seq *bench_open(pkv_cache *cache, const int32_t *tokens, uint64_t n, const pkv_key *keys,
                    uint64_t n_keys);
/* Slots for all that is not cached; returns the hit. */
uint64_t bench_allocate(pkv_seq *seq, uint64_t new_tokens);
void bench_close(pkv_seq *seq);
/* Prompts of n fresh tokens, one after the other, each in one step, and closed. */
void bench_fill(pkv_cache *cache, uint64_t n, uint64_t prompts, uint64_t *state);
/* ns of the keys of these tokens, as caches of bench_cache() compute them; keys: [n / 16]. */
double bench_key_chain(const int32_t *tokens, uint64_t n, pkv_key *keys);

/* ---- the benchmarks ---- */

typedef struct bench_params {
    uint64_t runs;
    uint64_t blocks;    /* of a pool that is larger than the first caches */
    uint64_t sequences; /* that advance together */
    uint64_t tokens;    /* of a prompt */
    uint64_t prompts;   /* cached ones, beside the one that is looked up */
    int64_t bytes;      /* of pages and chunks together */
    bool curve, json;
} bench_params;

/* They print, or fill the answer. */
void bench_pool(const bench_params *params, json_t *answer);
void bench_prefix(const bench_params *params, json_t *answer);
void bench_transfer(const bench_params *params, json_t *answer);
/* Parts of the pool's. */
void bench_curve(const bench_params *params, json_t *answer);
void bench_prompts(const bench_params *params, json_t *answer);
void bench_bytes(const bench_params *params, json_t *answer);
void bench_steps(const bench_params *params, json_t *answer);
/* A part of the prefixes'. */
void bench_keys(const bench_params *params, json_t *answer);

#endif
