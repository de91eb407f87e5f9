/* runs.c  From slots and blocks to stretches of tokens that lie side by side on both sides. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "transfer/transfer.h"

/* ---- ranges ---- */

/* Blocks or slots that every chosen layer of all ranks has. */
static uint64_t id_limit(const pkvi_job *job, const pkv_transfer_pages *sides, uint32_t n)
{
    uint64_t limit = PKVI_SIZE_MAX;
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < job->p.n_layers; i++) {
            const pkv_layer_pages *layer = &sides[r].layers[pkvi_step_layer(&job->p, i)];
            uint64_t ids = layer->num_blocks;
            if (!job->by_blocks && !pkvi_mul(ids, layer->block_size, &ids)) {
                ids = PKVI_SIZE_MAX;
            }
            limit = pkvi_min(limit, ids);
        }
    }
    return limit;
}

static pkv_status check_list(const pkvi_job *job, const char *name, const int64_t *ids,
                             uint64_t limit)
{
    for (uint64_t i = 0; ids && i < job->p.n_ids; i++) {
        if ((ids[i] < 0 && job->by_blocks) || (ids[i] >= 0 && (uint64_t)ids[i] >= limit)) {
            return pkvi_refuse(job, PKV_TRANSFER_RANGE, pkvi_field_of("%s[%" PRIu64 "]", name, i),
                               "%s %" PRId64 " of %" PRIu64, job->by_blocks ? "block" : "slot",
                               ids[i], limit);
        }
    }
    return PKV_OK;
}

/* Fills n_tokens from the ids and `tokens`. */
static pkv_status count_tokens(pkvi_job *job)
{
    const pkv_transfer_params *p = &job->p;
    const uint64_t size = pkvi_paged_side(p)->layers[pkvi_step_layer(p, 0)].block_size;
    uint64_t most = p->n_ids;
    if (job->by_blocks && !pkvi_mul(p->n_ids, size, &most)) {
        return pkvi_refuse(job, PKV_TRANSFER_RANGE, pkvi_field_of("n_ids"),
                           "%" PRIu64 " blocks of %" PRIu64 " tokens", p->n_ids, size);
    }
    job->n_tokens = most;
    if (p->tokens != PKV_ALL_TOKENS) {
        if (p->tokens > most || p->tokens <= most - size) {
            return pkvi_refuse(job, PKV_TRANSFER_RANGE, pkvi_field_of("tokens"),
                               "%" PRIu64 ": more than %" PRIu64 " and at most %" PRIu64
                               " were expected of %" PRIu64 " blocks",
                               p->tokens, most - size, most, p->n_ids);
        }
        job->n_tokens = p->tokens;
    }
    if (p->skip_tokens > job->n_tokens) {
        return pkvi_refuse(job, PKV_TRANSFER_RANGE, pkvi_field_of("skip_tokens"),
                           "%" PRIu64 " of %" PRIu64 " tokens", p->skip_tokens, job->n_tokens);
    }
    return PKV_OK;
}

pkv_status pkvi_check_ids(pkvi_job *job)
{
    const pkv_transfer_params *p = &job->p;
    const bool swap = p->op == PKV_TRANSFER_SWAP;
    const uint64_t src = p->src ? id_limit(job, p->src, p->n_src) : 0;
    const uint64_t dst = swap ? src : p->dst ? id_limit(job, p->dst, p->n_dst) : 0;
    PKVI_RETURN_IF(check_list(job, "src_slots", p->src_slots, src));
    PKVI_RETURN_IF(check_list(job, "dst_slots", p->dst_slots, dst));
    PKVI_RETURN_IF(check_list(job, "src_blocks", p->src_blocks, src));
    PKVI_RETURN_IF(check_list(job, "dst_blocks", p->dst_blocks, dst));
    PKVI_RETURN_IF(count_tokens(job));
    if (p->chunks) {
        uint64_t rows;
        if (pkvi_mul(p->chunks->tokens, p->chunks->n_chunks, &rows) && job->n_tokens > rows) {
            return pkvi_refuse(
                job, PKV_TRANSFER_RANGE,
                pkvi_field_of(job->by_blocks && p->tokens != PKV_ALL_TOKENS ? "tokens"
                                                                            : "chunks.chunks"),
                "%" PRIu64 " tokens, and the chunks have %" PRIu64 " rows", job->n_tokens, rows);
        }
    }
    return PKV_OK;
}

/* ---- runs ---- */

/* How one side names token i. One of the three is set. */
typedef struct namer {
    const int64_t *slots, *blocks;
    const pkv_transfer_chunks *chunks;
    uint64_t block_size; /* of a chunk: T, or in the form BLOCKS the pages' */
} namer;

/* Where token i is, and how many tokens lie side by side from it on; 0: it is skipped. */
static uint64_t spot_of(const namer *n, uint64_t i, pkvi_spot *out)
{
    const uint64_t size = n->block_size;
    if (n->slots) {
        const uint64_t slot = n->slots[i] < 0 ? 0 : (uint64_t)n->slots[i];
        *out = (pkvi_spot){0, slot / size, slot % size};
        return n->slots[i] >= 0;
    }
    if (n->blocks) {
        *out = (pkvi_spot){0, (uint64_t)n->blocks[i / size], i % size};
        return size - i % size;
    }
    const uint64_t row = i % n->chunks->tokens;
    const uint64_t base = (uint64_t)(uintptr_t)n->chunks->chunks[i / n->chunks->tokens].data;
    *out = (pkvi_spot){base, row / size, row % size};
    return size - row % size;
}

static bool follows(const pkvi_spot *a, uint64_t n, const pkvi_spot *b)
{
    return a->base == b->base && a->block == b->block && a->token + n == b->token;
}

/* Writes the runs of the tokens [from, to), or counts them if `runs` is NULL. */
static uint64_t make_runs(const namer *src, const namer *dst, uint64_t from, uint64_t to,
                          pkvi_run *runs, uint64_t *n_tokens)
{
    pkvi_run run, last = {.first_token = 0};
    uint64_t n_runs = 0, i = from, moved = 0;
    while (i < to) {
        const uint64_t a = spot_of(src, i, &run.src), b = spot_of(dst, i, &run.dst);
        const uint64_t n = pkvi_min(pkvi_min(a, b), to - i);
        i += n > 0 ? n : 1;
        if (n == 0) {
            continue;
        }
        const uint64_t held = moved - last.first_token;
        if (n_runs == 0 || !follows(&last.src, held, &run.src) ||
            !follows(&last.dst, held, &run.dst)) {
            run.first_token = moved;
            last = run;
            if (runs) {
                runs[n_runs] = run;
            }
            n_runs++;
        }
        moved += n;
    }
    *n_tokens = moved;
    return n_runs;
}

static namer namer_of(const pkvi_job *job, bool dst, uint64_t block_size)
{
    const pkv_transfer_params *p = &job->p;
    namer n = {dst ? p->dst_slots : p->src_slots, dst ? p->dst_blocks : p->src_blocks, NULL,
               block_size};
    if (!n.slots && !n.blocks) {
        n.chunks = p->chunks;
        n.block_size = p->chunks->form == PKV_CHUNK_BLOCKS ? block_size : p->chunks->tokens;
    }
    return n;
}

static pkv_status plan_group(pkvi_job *job, pkvi_run_group *group)
{
    const namer src = namer_of(job, false, group->src_block_size);
    const namer dst = namer_of(job, true, group->dst_block_size);
    uint64_t to = job->n_tokens;
    if (job->p.op == PKV_TRANSFER_SWAP) { /* layers may have blocks of different sizes */
        if (!pkvi_mul(job->p.n_ids, group->src_block_size, &to)) {
            return pkvi_refuse(job, PKV_TRANSFER_RANGE, pkvi_field_of("n_ids"),
                               "%" PRIu64 " blocks of %" PRIu64 " tokens", job->p.n_ids,
                               group->src_block_size);
        }
    }
    group->n_runs = make_runs(&src, &dst, job->p.skip_tokens, to, NULL, &group->n_tokens);
    group->runs = pkvi_arena_get(&job->plan->arena, group->n_runs, sizeof *group->runs);
    if (!group->runs) {
        return pkvi_transfer_no_memory();
    }
    (void)make_runs(&src, &dst, job->p.skip_tokens, to, group->runs, &group->n_tokens);
    return PKV_OK;
}

static uint64_t block_size_of(const pkv_transfer_pages *pages, uint32_t layer)
{
    return pages->layers[layer].block_size;
}

pkv_status pkvi_plan_runs(pkvi_job *job)
{
    const pkv_transfer_params *p = &job->p;
    pkv_transfer_plan *plan = job->plan;
    plan->groups = pkvi_arena_get(&plan->arena, p->n_layers, sizeof *plan->groups);
    if (!plan->groups) {
        return pkvi_transfer_no_memory();
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const uint32_t l = pkvi_step_layer(p, i);
        const uint64_t src = block_size_of(p->src ? p->src : p->dst, l);
        const uint64_t dst = block_size_of(p->dst ? p->dst : p->src, l);
        uint32_t g = 0;
        while (g < plan->n_groups &&
               (plan->groups[g].src_block_size != src || plan->groups[g].dst_block_size != dst)) {
            g++;
        }
        if (g == plan->n_groups) {
            plan->groups[g].src_block_size = src;
            plan->groups[g].dst_block_size = dst;
            plan->n_groups++;
            PKVI_RETURN_IF(plan_group(job, &plan->groups[g]));
            plan->info.runs += plan->groups[g].n_runs;
        }
    }
    plan->info.tokens = p->op == PKV_TRANSFER_SWAP ? 0 : plan->groups[0].n_tokens;
    return PKV_OK;
}
