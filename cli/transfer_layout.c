/* transfer_layout.c  A paged side that is told as an engine's tensors, with a buffer for each. */
#include <string.h>

#include "layout.h"
#include "transfer.h"

/* All layers of a reading as pages. */
static bool take_layers(transfer_job *job, const pkv_reading *reading, const char *field,
                        pkv_transfer_pages *out)
{
    const uint32_t n = pkv_reading_n_layers(reading);
    pkv_layer_pages *layers = transfer_get(job, n, sizeof *layers);
    uint32_t *dtypes = transfer_get(job, n, sizeof *dtypes);
    for (uint32_t l = 0; l < n; l++) {
        const pkv_layout *layout = pkv_reading_layer(reading, l);
        pkv_plane *planes = transfer_get(job, PKV_LAYOUT_MAX_TENSORS, sizeof *planes);
        if (pkv_layout_planes(layout, planes, &layers[l]) != PKV_OK) {
            return transfer_refused(job, "unsupported", field, "%s: layer %u: %s", field, l,
                                    pkv_last_error());
        }
        dtypes[l] = layout->dtype;
    }
    out->layers = layers;
    out->dtypes = dtypes;
    out->n_layers = n;
    return true;
}

static bool read_tensors(transfer_job *job, const layout_problem *problem, const char *field,
                         pkv_transfer_pages *out)
{
    pkv_refusal refusal = {0};
    pkv_reading *reading;
    const pkv_status st = pkv_reading_create(&problem->params, &refusal, &reading);
    if (st != PKV_OK) {
        json_t *answer = layout_refused(st, &refusal);
        const char *code = json_string_value(json_object_get(answer, "code"));
        char *kept = transfer_get(job, strlen(code) + 1, 1);
        memcpy(kept, code, strlen(code));
        json_decref(answer);
        return transfer_refused(job, kept, field, "%s: %s", field, pkv_last_error());
    }
    const bool ok = take_layers(job, reading, field, out);
    pkv_reading_destroy(reading);
    return ok;
}

bool transfer_read_layout(transfer_job *job, const json_t *object, const char *where,
                          pkv_transfer_pages *out)
{
    layout_problem problem;
    char field[96];
    bool ok = false;
    (void)snprintf(field, sizeof field, "%.80s.layout", where);
    if (!layout_problem_read(json_object_get(object, "layout"), &problem)) {
        (void)transfer_malformed(job, "%s: %.300s", field, problem.error);
    } else if (problem.params.n_layers == 0) {
        (void)transfer_malformed(job, "%s: layers were expected", field);
    } else if (problem.n_tensors != out->n_buffers) {
        (void)transfer_malformed(job, "%s.buffers: %u for %u tensors", where, out->n_buffers,
                                 problem.n_tensors);
    } else {
        ok = read_tensors(job, &problem, field, out);
    }
    layout_problem_free(&problem);
    return ok;
}
