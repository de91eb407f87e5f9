/* check.c  Whether a transfer is well formed, and whether both sides hold the same. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "transfer/transfer.h"

/* ---- refusals ---- */

pkvi_field pkvi_field_of(const char *fmt, ...)
{
    pkvi_field field;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(field.text, sizeof field.text, fmt, args);
    va_end(args);
    return field;
}

pkv_status pkvi_refuse(const pkvi_job *job, pkv_transfer_rule rule, pkvi_field field,
                       const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (job->refusal) {
        job->refusal->rule = rule;
        memcpy(job->refusal->field, field.text, sizeof field.text);
    }
    return pkvi_fail(PKV_E_INVAL, "pkv_transfer_plan_create: %s: %s", field.text, text);
}

pkv_status pkvi_transfer_no_memory(void)
{
    return pkvi_fail(PKV_E_NOMEM, "pkv_transfer_plan_create: out of memory");
}

/* ---- form ---- */

typedef struct side_name {
    const char *name; /* "src" */
    uint32_t rank;
} side_name;

static pkv_status check_plane(const pkvi_job *job, const pkv_transfer_pages *pages, side_name side,
                              uint32_t layer, uint32_t plane)
{
    const pkv_plane *at = &pages->layers[layer].planes[plane];
    const pkvi_field field =
        pkvi_field_of("%s[%u].layers[%u].planes[%u]", side.name, side.rank, layer, plane);
    if (at->heads == 0 || at->row_bytes == 0) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, field,
                           "heads %" PRIu64 ", row_bytes %" PRIu64 ": at least 1 and 1", at->heads,
                           at->row_bytes);
    }
    if (at->buffer >= pages->n_buffers) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, field, "buffer %u of %u", at->buffer,
                           pages->n_buffers);
    }
    return PKV_OK;
}

static pkv_status check_pages(const pkvi_job *job, const pkv_transfer_pages *pages, side_name side)
{
    if (!pages->buffers || !pages->layers || pages->n_buffers == 0 || pages->n_layers == 0) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED,
                           pkvi_field_of("%s[%u]", side.name, side.rank),
                           "no buffers or no layers");
    }
    for (uint32_t l = 0; l < pages->n_layers; l++) {
        const pkv_layer_pages *layer = &pages->layers[l];
        if (!layer->planes || layer->n_planes == 0 || layer->num_blocks == 0 ||
            layer->block_size == 0) {
            return pkvi_refuse(
                job, PKV_TRANSFER_MALFORMED,
                pkvi_field_of("%s[%u].layers[%u]", side.name, side.rank, l),
                "planes %u, num_blocks %" PRIu64 ", block_size %" PRIu64 ": at least 1 each",
                layer->planes ? layer->n_planes : 0, layer->num_blocks, layer->block_size);
        }
        for (uint32_t p = 0; p < layer->n_planes; p++) {
            PKVI_RETURN_IF(check_plane(job, pages, side, l, p));
        }
    }
    return PKV_OK;
}

static pkv_status check_chunk_form(const pkvi_job *job)
{
    const pkv_transfer_chunks *c = job->p.chunks;
    if (c->form < PKV_CHUNK_2LTD || c->form > PKV_CHUNK_BLOCKS) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("chunks.form"), "%u",
                           c->form);
    }
    if (!c->chunks || c->n_chunks == 0 || c->tokens == 0) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("chunks"),
                           "%u chunks of %" PRIu64 " tokens: at least 1 and 1",
                           c->chunks ? c->n_chunks : 0, c->tokens);
    }
    return PKV_OK;
}

/* Which of the lists an operation takes. */
typedef struct op_form {
    bool src, dst, chunks, src_ids, dst_ids, slots, ranks;
} op_form;

static const op_form forms[] = {
    [PKV_TRANSFER_GATHER] = {.src = true, .chunks = true, .src_ids = true, .slots = true},
    [PKV_TRANSFER_SCATTER] = {.dst = true, .chunks = true, .dst_ids = true, .slots = true},
    [PKV_TRANSFER_COPY] =
        {.src = true, .dst = true, .src_ids = true, .dst_ids = true, .slots = true},
    [PKV_TRANSFER_SWAP] = {.src = true, .src_ids = true, .dst_ids = true},
    [PKV_TRANSFER_RESHARD] =
        {.src = true, .dst = true, .src_ids = true, .dst_ids = true, .ranks = true},
};

static pkv_status check_lists(pkvi_job *job, const op_form *form)
{
    const pkv_transfer_params *p = &job->p;
    const bool slots = p->src_slots || p->dst_slots, blocks = p->src_blocks || p->dst_blocks;
    const bool wrong = slots ? blocks || !form->slots || !p->src_slots != !form->src_ids ||
                                   !p->dst_slots != !form->dst_ids
                             : !p->src_blocks != !form->src_ids || !p->dst_blocks != !form->dst_ids;
    job->by_blocks = !slots;
    if (wrong) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("op"),
                           "%u does not go with these lists of slots or blocks", p->op);
    }
    if (p->n_ids == 0) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("n_ids"),
                           "0: at least 1 slot or block was expected");
    }
    if (p->tokens != PKV_ALL_TOKENS && (slots || p->op == PKV_TRANSFER_SWAP)) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("tokens"),
                           "%" PRIu64 " without blocks that are copied", p->tokens);
    }
    if (p->skip_tokens != 0 && p->op == PKV_TRANSFER_SWAP) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("skip_tokens"),
                           "%" PRIu64 " of a swap", p->skip_tokens);
    }
    return PKV_OK;
}

static pkv_status check_op(pkvi_job *job, const op_form *form)
{
    const pkv_transfer_params *p = &job->p;
    if (!p->src != !form->src || !p->dst != !form->dst || !p->chunks != !form->chunks ||
        p->stores > PKV_STORES_STREAMING) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("op"),
                           "%u takes other sides, or stores %u", p->op, p->stores);
    }
    if (form->ranks ? p->n_src == 0 || p->n_dst == 0 || p->heads_total == 0
                    : p->n_src != 1 || p->n_dst != 1 || p->heads_total != 0) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED,
                           pkvi_field_of(p->n_src && p->n_dst ? "heads_total" : "n_src"),
                           "%u and %u ranks, %" PRIu64 " heads in total", p->n_src, p->n_dst,
                           p->heads_total);
    }
    PKVI_RETURN_IF(check_lists(job, form));
    if (p->chunks) {
        PKVI_RETURN_IF(check_chunk_form(job));
    }
    for (uint32_t i = 0; p->src && i < p->n_src; i++) {
        PKVI_RETURN_IF(check_pages(job, &p->src[i], (side_name){"src", i}));
    }
    for (uint32_t i = 0; p->dst && i < p->n_dst; i++) {
        PKVI_RETURN_IF(check_pages(job, &p->dst[i], (side_name){"dst", i}));
    }
    return PKV_OK;
}

static pkv_status check_layers(pkvi_job *job)
{
    pkv_transfer_params *p = &job->p;
    const uint32_t n = pkvi_paged_side(p)->n_layers;
    if (!p->layers) {
        if (p->n_layers != 0 && p->n_layers != n) {
            return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("n_layers"),
                               "%u without a list", p->n_layers);
        }
        p->n_layers = n;
        return PKV_OK;
    }
    uint8_t *seen = pkvi_arena_get(&job->plan->arena, n, 1);
    if (!seen) {
        return pkvi_transfer_no_memory();
    }
    if (p->n_layers == 0) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("layers"), "an empty list");
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const uint32_t l = p->layers[i];
        if (l >= n) {
            return pkvi_refuse(job, PKV_TRANSFER_RANGE, pkvi_field_of("layers[%u]", i),
                               "layer %u of %u", l, n);
        }
        if (seen[l]) {
            return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("layers[%u]", i),
                               "layer %u a second time", l);
        }
        seen[l] = 1;
    }
    return PKV_OK;
}

pkv_status pkvi_check_form(pkvi_job *job)
{
    const uint32_t op = job->p.op;
    if (op < PKV_TRANSFER_GATHER || op > PKV_TRANSFER_RESHARD) {
        return pkvi_refuse(job, PKV_TRANSFER_MALFORMED, pkvi_field_of("op"), "%u", op);
    }
    PKVI_RETURN_IF(check_op(job, &forms[op]));
    return check_layers(job);
}
