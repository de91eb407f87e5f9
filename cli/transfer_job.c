/* transfer_job.c  A transfer job as JSON, checked field by field. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

void *transfer_get(transfer_job *job, size_t n, size_t bytes)
{
    void *memory = calloc(n + 1, bytes);
    void **pieces = realloc(job->pieces, (job->n_pieces + 1) * sizeof *pieces);
    if (!memory || !pieces) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    pieces[job->n_pieces++] = memory;
    job->pieces = pieces;
    return memory;
}

bool transfer_malformed(transfer_job *job, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(job->text, sizeof job->text, format, args);
    va_end(args);
    job->end = TRANSFER_MALFORMED;
    return false;
}

bool transfer_refused(transfer_job *job, const char *code, const char *field, const char *format,
                      ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(job->text, sizeof job->text, format, args);
    va_end(args);
    (void)snprintf(job->field, sizeof job->field, "%s", field);
    job->code = code;
    job->end = TRANSFER_REFUSED;
    return false;
}

/* ---- fields ---- */

bool transfer_known(transfer_job *job, const json_t *object, const char *where,
                    const char *const *names)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) {
        return transfer_malformed(job, "%s: an object was expected", where);
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *const *name = names;
        while (*name && strcmp(*name, key) != 0) {
            name++;
        }
        if (!*name) {
            return transfer_malformed(job, "%s: unknown field \"%.40s\"", where, key);
        }
    }
    return true;
}

bool transfer_int(transfer_job *job, const json_t *object, const char *where, const char *name,
                  json_int_t least, json_int_t otherwise, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value && otherwise >= 0) {
        *out = (uint64_t)otherwise;
        return true;
    }
    if (!json_is_integer(value) || json_integer_value(value) < least) {
        return transfer_malformed(
            job, "%s.%s: an integer of at least %" JSON_INTEGER_FORMAT " was expected", where, name,
            least);
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_bool(transfer_job *job, const char *name, bool *out)
{
    const json_t *value = json_object_get(job->root, name);
    if (value && !json_is_boolean(value)) {
        return transfer_malformed(job, "%s: true or false was expected", name);
    }
    *out = json_is_true(value);
    return true;
}

/* A count that the rules judge, so that a negative one is RANGE and not malformed. */
static bool read_count(transfer_job *job, const char *name, uint64_t otherwise, uint64_t *out)
{
    const json_t *value = json_object_get(job->root, name);
    *out = otherwise;
    if (!value) {
        return true;
    }
    if (!json_is_integer(value)) {
        return transfer_malformed(job, "%s: an integer was expected", name);
    }
    if (json_integer_value(value) < 0) {
        return transfer_refused(job, "RANGE", name, "%s: %" JSON_INTEGER_FORMAT, name,
                                json_integer_value(value));
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* A list of integers, or, with `pairs`, of pairs whose halves go into two lists. */
static bool read_numbers(transfer_job *job, const char *name, int64_t **first, int64_t **second,
                         uint64_t *n_out)
{
    const json_t *list = json_object_get(job->root, name);
    const size_t n = json_array_size(list);
    if (n == 0) {
        return transfer_malformed(job, "%s: a list of at least one %s was expected", name,
                                  second ? "pair" : "integer");
    }
    if (*n_out != 0 && *n_out != n) {
        return transfer_malformed(job, "%s: %zu of them, and %" PRIu64 " before", name, n, *n_out);
    }
    *n_out = n;
    *first = transfer_get(job, n, sizeof **first);
    if (second) {
        *second = transfer_get(job, n, sizeof **second);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i), *a = one, *b = one;
        if (second) {
            a = json_array_get(one, 0);
            b = json_array_size(one) == 2 ? json_array_get(one, 1) : NULL;
        }
        if (!json_is_integer(a) || !json_is_integer(b)) {
            return transfer_malformed(job, "%s[%zu]: %s was expected", name, i,
                                      second ? "a pair of integers" : "an integer");
        }
        (*first)[i] = json_integer_value(a);
        if (second) {
            (*second)[i] = json_integer_value(b);
        }
    }
    return true;
}

/* ---- sides ---- */

static const char *const chunk_forms[] = {
    [PKV_CHUNK_2LTD] = "2LTD", [PKV_CHUNK_L2TD] = "L2TD", [PKV_CHUNK_2TD] = "2TD",
    [PKV_CHUNK_T2D] = "T2D",   [PKV_CHUNK_MLA] = "MLA",   [PKV_CHUNK_BLOCKS] = "BLOCKS"};

static bool read_chunks(transfer_job *job, const json_t *object, const char *where, bool written)
{
    static const char *const names[] = {"chunk", "tokens", "files", "offset", NULL};
    pkv_transfer_chunks *c = &job->chunks;
    if (!transfer_known(job, object, where, names)) {
        return false;
    }
    const char *form = json_string_value(json_object_get(object, "chunk"));
    for (c->form = PKV_CHUNK_2LTD; c->form <= PKV_CHUNK_BLOCKS; c->form++) {
        if (form && strcmp(form, chunk_forms[c->form]) == 0) {
            break;
        }
    }
    if (c->form > PKV_CHUNK_BLOCKS) {
        return transfer_malformed(job,
                                  "%s.chunk: one of 2LTD, L2TD, 2TD, T2D, MLA, BLOCKS was "
                                  "expected",
                                  where);
    }
    const json_t *files = json_object_get(object, "files");
    const size_t n = json_array_size(files);
    if (n == 0) {
        return transfer_malformed(job, "%s.files: a list of at least one file was expected", where);
    }
    pkv_transfer_buffer *chunks = transfer_get(job, n, sizeof *chunks);
    for (size_t i = 0; i < n; i++) {
        char place[40];
        (void)snprintf(place, sizeof place, "%.8s.files[%zu]", where, i);
        if (!transfer_name_file(job, json_array_get(files, i), place, written, &chunks[i])) {
            return false;
        }
    }
    c->chunks = chunks;
    c->n_chunks = (uint32_t)n;
    job->params.chunks = c;
    return transfer_int(job, object, where, "tokens", 1, -1, &c->tokens) &&
           transfer_int(job, object, where, "offset", 0, 0, &c->offset);
}

/* One structure of pages, or, with `ranks`, a list of them. */
static bool read_sides(transfer_job *job, const char *name, bool ranks, bool written,
                       const pkv_transfer_pages **out, uint32_t *n_out)
{
    const json_t *given = json_object_get(job->root, name);
    const size_t n = ranks ? json_array_size(given) : 1;
    if (n == 0) {
        return transfer_malformed(job, "%s: a list of at least one rank was expected", name);
    }
    pkv_transfer_pages *sides = transfer_get(job, n, sizeof *sides);
    for (size_t i = 0; i < n; i++) {
        char place[32];
        (void)snprintf(place, sizeof place, ranks ? "%.3s[%zu]" : "%.3s", name, i);
        if (!transfer_read_pages(job, ranks ? json_array_get(given, i) : given, place, written,
                                 &sides[i])) {
            return false;
        }
    }
    *out = sides;
    *n_out = (uint32_t)n;
    return true;
}

/* ---- the job ---- */

static const struct {
    const char *name;
    const char *fields[14];
} ops[] = {
    [PKV_TRANSFER_GATHER] = {"gather",
                             {"op", "src", "dst", "layers", "layerwise", "workers", "skip_tokens",
                              "tokens", "slots", "blocks", NULL}},
    [PKV_TRANSFER_SCATTER] = {"scatter",
                              {"op", "src", "dst", "layers", "layerwise", "workers", "skip_tokens",
                               "tokens", "slots", "blocks", NULL}},
    [PKV_TRANSFER_COPY] = {"copy",
                           {"op", "src", "dst", "layers", "layerwise", "workers", "skip_tokens",
                            "tokens", "src_slots", "dst_slots", "blocks", NULL}},
    [PKV_TRANSFER_SWAP] = {"swap", {"op", "src", "layers", "layerwise", "workers", "blocks", NULL}},
    [PKV_TRANSFER_RESHARD] = {"reshard",
                              {"op", "src", "dst", "layers", "layerwise", "workers", "skip_tokens",
                               "tokens", "blocks", "heads_total", NULL}},
};

static bool read_op(transfer_job *job)
{
    const char *name = json_string_value(json_object_get(job->root, "op"));
    uint32_t op = PKV_TRANSFER_GATHER;
    if (!json_is_object(job->root)) {
        return transfer_malformed(job, "an object was expected");
    }
    while (op <= PKV_TRANSFER_RESHARD && (!name || strcmp(name, ops[op].name) != 0)) {
        op++;
    }
    job->params.op = op;
    if (op > PKV_TRANSFER_RESHARD) {
        return transfer_malformed(job,
                                  "op: one of gather, scatter, copy, swap, reshard was expected");
    }
    return transfer_known(job, job->root, ops[op].name, ops[op].fields);
}

static bool read_ids(transfer_job *job)
{
    pkv_transfer_params *p = &job->params;
    const bool gather = p->op == PKV_TRANSFER_GATHER, copy = p->op == PKV_TRANSFER_COPY;
    const bool one = gather || p->op == PKV_TRANSFER_SCATTER;
    const bool slots = json_object_get(job->root, "slots") ||
                       json_object_get(job->root, "src_slots") ||
                       json_object_get(job->root, "dst_slots");
    int64_t *first = NULL, *second = NULL;
    if (slots && json_object_get(job->root, "blocks")) {
        return transfer_malformed(job, "blocks: slots are given, too");
    }
    if (slots && json_object_get(job->root, "tokens")) {
        return transfer_malformed(job, "tokens: they go with blocks, and slots are given");
    }
    if (slots && copy) {
        const bool read = read_numbers(job, "src_slots", &first, NULL, &p->n_ids) &&
                          read_numbers(job, "dst_slots", &second, NULL, &p->n_ids);
        p->src_slots = first;
        p->dst_slots = second;
        return read;
    }
    if (!read_numbers(job, slots ? "slots" : "blocks", &first, one ? NULL : &second, &p->n_ids)) {
        return false;
    }
    if (one) {
        const int64_t **list = slots ? (gather ? &p->src_slots : &p->dst_slots)
                                     : (gather ? &p->src_blocks : &p->dst_blocks);
        *list = first;
        return true;
    }
    p->src_blocks = first;
    p->dst_blocks = second;
    return true;
}

static bool read_layers(transfer_job *job)
{
    uint64_t n = 0;
    if (!json_object_get(job->root, "layers")) {
        return true;
    }
    if (!read_numbers(job, "layers", &job->layers, NULL, &n)) {
        return false;
    }
    json_t *seen = json_object();
    bool twice = false;
    for (uint64_t i = 0; i < n && !twice; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%" PRId64, job->layers[i]);
        twice = json_object_get(seen, key) != NULL;
        cli_set(seen, key, json_true());
        if (twice) {
            (void)transfer_malformed(job, "layers[%" PRIu64 "]: layer %s a second time", i, key);
        }
    }
    json_decref(seen);
    job->n_layers = (uint32_t)n;
    return !twice;
}

static bool read_both_sides(transfer_job *job)
{
    pkv_transfer_params *p = &job->params;
    const bool ranks = p->op == PKV_TRANSFER_RESHARD, swap = p->op == PKV_TRANSFER_SWAP;
    const json_t *src = json_object_get(job->root, "src"), *dst = json_object_get(job->root, "dst");
    if (p->op == PKV_TRANSFER_SCATTER) {
        if (!read_chunks(job, src, "src", false)) {
            return false;
        }
    } else if (!read_sides(job, "src", ranks, swap, &p->src, &p->n_src)) {
        return false;
    }
    if (swap) {
        return true;
    }
    return p->op == PKV_TRANSFER_GATHER ? read_chunks(job, dst, "dst", true)
                                        : read_sides(job, "dst", ranks, true, &p->dst, &p->n_dst);
}

bool transfer_read(transfer_job *job, json_t *root)
{
    pkv_transfer_params *p = &job->params;
    uint64_t workers = 1;
    job->root = root;
    pkv_transfer_params_init(p);
    if (!read_op(job) || !read_ids(job) || !read_layers(job) ||
        !read_bool(job, "layerwise", &job->layerwise) ||
        !transfer_int(job, root, "job", "workers", 1, 1, &workers)) {
        return false;
    }
    if (workers > TRANSFER_MAX_WORKERS) {
        return transfer_malformed(job, "workers: 1 to %d were expected", TRANSFER_MAX_WORKERS);
    }
    job->workers = (uint32_t)workers;
    if (p->op == PKV_TRANSFER_RESHARD &&
        !transfer_int(job, root, "job", "heads_total", 1, -1, &p->heads_total)) {
        return false;
    }
    return read_both_sides(job) && read_count(job, "tokens", PKV_ALL_TOKENS, &p->tokens) &&
           read_count(job, "skip_tokens", 0, &p->skip_tokens);
}
