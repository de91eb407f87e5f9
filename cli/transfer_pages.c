/* transfer_pages.c  The paged sides of a job. */
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

static bool read_plane(transfer_job *job, const json_t *object, const char *where, pkv_plane *out)
{
    static const char *const names[] = {"buffer",       "offset",       "heads",       "row_bytes",
                                        "block_stride", "token_stride", "head_stride", NULL};
    uint64_t buffer;
    if (!transfer_known(job, object, where, names) ||
        !transfer_int(job, object, where, "buffer", 0, -1, &buffer) ||
        !transfer_int(job, object, where, "offset", 0, 0, &out->offset) ||
        !transfer_int(job, object, where, "heads", 1, -1, &out->heads) ||
        !transfer_int(job, object, where, "row_bytes", 1, -1, &out->row_bytes) ||
        !transfer_int(job, object, where, "block_stride", 0, -1, &out->block_stride) ||
        !transfer_int(job, object, where, "token_stride", 0, -1, &out->token_stride) ||
        !transfer_int(job, object, where, "head_stride", 0, -1, &out->head_stride)) {
        return false;
    }
    out->buffer = buffer > UINT32_MAX ? UINT32_MAX : (uint32_t)buffer;
    return true;
}

static bool read_layer(transfer_job *job, const json_t *object, const char *where,
                       pkv_layer_pages *out)
{
    static const char *const names[] = {"num_blocks", "block_size", "planes", NULL};
    if (!transfer_known(job, object, where, names) ||
        !transfer_int(job, object, where, "num_blocks", 1, -1, &out->num_blocks) ||
        !transfer_int(job, object, where, "block_size", 1, -1, &out->block_size)) {
        return false;
    }
    const json_t *planes = json_object_get(object, "planes");
    const size_t n = json_array_size(planes);
    if (n == 0) {
        return transfer_malformed(job, "%s.planes: a list of at least one plane was expected",
                                  where);
    }
    pkv_plane *list = transfer_get(job, n, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        char place[96];
        (void)snprintf(place, sizeof place, "%.50s.planes[%zu]", where, i);
        if (!read_plane(job, json_array_get(planes, i), place, &list[i])) {
            return false;
        }
    }
    out->planes = list;
    out->n_planes = (uint32_t)n;
    return true;
}

static bool read_buffers(transfer_job *job, const json_t *object, const char *where, bool written,
                         pkv_transfer_pages *out)
{
    const json_t *names = json_object_get(object, "buffers");
    const size_t n = json_array_size(names);
    if (n == 0) {
        return transfer_malformed(job, "%s.buffers: a list of at least one file was expected",
                                  where);
    }
    pkv_transfer_buffer *buffers = transfer_get(job, n, sizeof *buffers);
    for (size_t i = 0; i < n; i++) {
        char place[96];
        (void)snprintf(place, sizeof place, "%.40s.buffers[%zu]", where, i);
        if (!transfer_name_file(job, json_array_get(names, i), place, written, &buffers[i])) {
            return false;
        }
    }
    out->buffers = buffers;
    out->n_buffers = (uint32_t)n;
    return true;
}

static bool check_buffers(transfer_job *job, const pkv_transfer_pages *pages, const char *where)
{
    for (uint32_t l = 0; l < pages->n_layers; l++) {
        for (uint32_t p = 0; p < pages->layers[l].n_planes; p++) {
            if (pages->layers[l].planes[p].buffer >= pages->n_buffers) {
                return transfer_malformed(job, "%s.layers[%u].planes[%u].buffer: there are %u",
                                          where, l, p, pages->n_buffers);
            }
        }
    }
    return true;
}

static bool read_layers(transfer_job *job, const json_t *list, const char *where,
                        pkv_transfer_pages *out)
{
    const size_t n = json_array_size(list);
    if (n == 0) {
        return transfer_malformed(job, "%s.layers: a list of at least one layer was expected",
                                  where);
    }
    pkv_layer_pages *layers = transfer_get(job, n, sizeof *layers);
    for (size_t i = 0; i < n; i++) {
        char place[96];
        (void)snprintf(place, sizeof place, "%.32s.layers[%zu]", where, i);
        if (!read_layer(job, json_array_get(list, i), place, &layers[i])) {
            return false;
        }
    }
    out->layers = layers;
    out->n_layers = (uint32_t)n;
    return true;
}

bool transfer_read_pages(transfer_job *job, const json_t *object, const char *where, bool written,
                         pkv_transfer_pages *out)
{
    static const char *const names[] = {"buffers", "layers", "layout", NULL};
    const json_t *layers = json_object_get(object, "layers");
    const json_t *layout = json_object_get(object, "layout");
    if (!transfer_known(job, object, where, names)) {
        return false;
    }
    if (!layers == !layout) {
        return transfer_malformed(job, "%s: either layers or layout was expected", where);
    }
    return read_buffers(job, object, where, written, out) &&
           (layout ? transfer_read_layout(job, object, where, out)
                   : read_layers(job, layers, where, out)) &&
           check_buffers(job, out, where);
}
