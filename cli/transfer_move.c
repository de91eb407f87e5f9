/* transfer_move.c  Plans a job and moves its bytes, by as many threads as it names. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "transfer.h"

/* ---- refusals ---- */

/* The library names fields of its parameters; the job has names of its own. */
static void rename_field(transfer_job *job, const char *field)
{
    const uint32_t op = job->params.op;
    const bool one = op == PKV_TRANSFER_GATHER || op == PKV_TRANSFER_SCATTER;
    const char *paged = op == PKV_TRANSFER_SCATTER ? "src" : "dst"; /* where chunks stand */
    char *out = job->field;
    const size_t room = sizeof job->field;
    const bool of_src = strncmp(field, "src_", 4) == 0, of_dst = strncmp(field, "dst_", 4) == 0;
    if (strncmp(field, "chunks.chunks", 13) == 0) {
        (void)snprintf(out, room, "%s.files%s", paged, field + 13);
    } else if (strcmp(field, "chunks.form") == 0) {
        (void)snprintf(out, room, "%s.chunk", paged);
    } else if (strncmp(field, "chunks", 6) == 0) {
        (void)snprintf(out, room, "%s%s", paged, field + 6);
    } else if ((of_src || of_dst) && one) {
        (void)snprintf(out, room, "%s", field + 4);
    } else if ((of_src || of_dst) && strncmp(field + 4, "blocks", 6) == 0) {
        (void)snprintf(out, room, "%s%s", field + 4, field[10] ? of_src ? "[0]" : "[1]" : "");
    } else if (op != PKV_TRANSFER_RESHARD && strncmp(field + 3, "[0]", 3) == 0) {
        (void)snprintf(out, room, "%.3s%s", field, field + 6);
    } else {
        (void)snprintf(out, room, "%s", field);
    }
}

static void end_refused(transfer_job *job, const pkv_transfer_refusal *refusal)
{
    static const char *const codes[] = {"INPUT", "RANGE", "BOUNDS", "OVERLAP", "CONTENT"};
    const char *text = strstr(pkv_last_error(), ": "); /* after the function */
    if (text) {
        text = strncmp(text + 2, refusal->field, strlen(refusal->field)) == 0
                   ? text + 2 + strlen(refusal->field)
                   : text;
    }
    rename_field(job, refusal->field);
    (void)snprintf(job->text, sizeof job->text, "%s%.400s", job->field, text ? text : "");
    job->code = codes[refusal->rule];
    job->end = refusal->rule == PKV_TRANSFER_MALFORMED ? TRANSFER_MALFORMED : TRANSFER_REFUSED;
}

/* ---- threads ---- */

typedef struct share {
    const pkv_transfer_plan *plan;
    uint32_t worker, n_workers, first_step, last_step;
    bool whole; /* all layers at once */
    pkv_status status;
} share;

static void *run_share(void *arg)
{
    share *s = arg;
    if (s->whole) {
        s->status = pkv_transfer_run(s->plan, s->worker, s->n_workers);
        return NULL;
    }
    for (uint32_t step = s->first_step; step < s->last_step && s->status == PKV_OK; step++) {
        s->status = pkv_transfer_run_layer(s->plan, step, s->worker, s->n_workers);
    }
    return NULL;
}

/* A worker without a thread of its own is run here. */
static void run_workers(const share *like)
{
    pthread_t threads[TRANSFER_MAX_WORKERS];
    share shares[TRANSFER_MAX_WORKERS];
    uint32_t started = 1;
    for (uint32_t i = 0; i < like->n_workers; i++) {
        shares[i] = *like;
        shares[i].worker = i;
    }
    while (started < like->n_workers &&
           pthread_create(&threads[started], NULL, run_share, &shares[started]) == 0) {
        started++;
    }
    (void)run_share(&shares[0]);
    for (uint32_t i = started; i < like->n_workers; i++) {
        (void)run_share(&shares[i]);
    }
    for (uint32_t i = 1; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static void run(const transfer_job *job, const pkv_transfer_plan *plan, uint32_t n_layers)
{
    share like = {.plan = plan, .n_workers = job->workers, .whole = !job->layerwise};
    if (like.whole) {
        run_workers(&like);
        return;
    }
    for (uint32_t step = 0; step < n_layers; step++) { /* the next layer waits for this one */
        like.first_step = step;
        like.last_step = step + 1;
        run_workers(&like);
    }
}

/* ---- the job ---- */

/* Layers as the library takes them. */
static bool convert_layers(transfer_job *job)
{
    pkv_transfer_params *p = &job->params;
    const uint32_t n = (p->src ? p->src : p->dst)->n_layers;
    if (!job->layers) {
        return true;
    }
    uint32_t *layers = transfer_get(job, job->n_layers, sizeof *layers);
    for (uint32_t i = 0; i < job->n_layers; i++) {
        char field[32];
        (void)snprintf(field, sizeof field, "layers[%u]", i);
        if (job->layers[i] < 0 || job->layers[i] >= n) {
            return transfer_refused(job, "RANGE", field, "%s: layer %" PRId64 " of %u", field,
                                    job->layers[i], n);
        }
        layers[i] = (uint32_t)job->layers[i];
    }
    p->layers = layers;
    p->n_layers = job->n_layers;
    return true;
}

static json_t *answer_of(const transfer_job *job, const pkv_transfer_plan *plan,
                         const pkv_transfer_info *info)
{
    json_t *answer = json_object();
    cli_set(answer, "ok", json_true());
    cli_set(answer, "tokens", cli_int(info->tokens));
    cli_set(answer, "bytes", cli_int(info->bytes));
    if (job->layerwise) {
        json_t *steps = json_array();
        for (uint32_t i = 0; i < info->n_layers; i++) {
            cli_push(steps, cli_int(pkv_transfer_layer_bytes(plan, i)));
        }
        cli_set(answer, "steps", steps);
    }
    return answer;
}

json_t *transfer_move(transfer_job *job)
{
    pkv_transfer_plan *plan;
    pkv_transfer_refusal refusal;
    pkv_transfer_info info;
    if (!convert_layers(job)) {
        return NULL;
    }
    const pkv_status st = pkv_transfer_plan_create(&job->params, &plan, &refusal);
    if (st == PKV_E_INVAL) {
        end_refused(job, &refusal);
        return NULL;
    }
    if (st != PKV_OK) {
        (void)snprintf(job->text, sizeof job->text, "%s", pkv_last_error());
        job->end = TRANSFER_NO_FILE;
        return NULL;
    }
    pkv_transfer_plan_info(plan, &info);
    json_t *answer = answer_of(job, plan, &info);
    if (!job->dry_run) {
        run(job, plan, info.n_layers);
    }
    pkv_transfer_plan_destroy(plan);
    return answer;
}
