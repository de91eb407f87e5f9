/* plan_answer.c  A plan as JSON. */
#include "plan.h"

const char *plan_kind_name(uint32_t kind)
{
    const char *name = pkv_kind_name(kind);
    return name ? name : "unknown";
}

const char *plan_role_name(uint32_t role)
{
    switch (role) {
    case PKV_GROUP_HISPARSE_SOURCE: return "hisparse_source";
    case PKV_GROUP_HISPARSE_INDEXER: return "hisparse_indexer";
    default: return "default";
    }
}

json_t *plan_layer_name(const plan_source *source, uint32_t kind, uint32_t layer)
{
    const char *name = source->layer_name(source->ctx, layer);
    const char *suffix = kind == PKV_KIND_HISPARSE_HOT        ? ".hisparse_hot"
                         : kind == PKV_KIND_HISPARSE_RESIDENT ? ".hisparse_resident"
                                                              : "";
    return json_sprintf("%s%s", name, suffix);
}

json_t *plan_layer_names(const plan_source *source, uint32_t kind, const uint32_t *layers,
                         uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        cli_push(list, plan_layer_name(source, kind, layers[i]));
    }
    return list;
}

static json_t *group_answer(const plan_source *source, const pkv_group *group)
{
    json_t *answer = json_object();
    cli_set(answer, "kind", json_string(plan_kind_name(group->kind)));
    cli_set(answer, "block_size", cli_int(group->block_size));
    cli_set(answer, "page_bytes", cli_int(group->page_bytes));
    cli_set(answer, "layers",
            plan_layer_names(source, group->kind, group->layers, group->n_layers));
    cli_set(answer, "is_eagle", json_boolean(group->is_eagle));
    cli_set(answer, "uniform_type", json_boolean(group->uniform_type));
    cli_set(answer, "host", json_boolean(group->host));
    cli_set(answer, "transfer", json_boolean(group->transfer));
    cli_set(answer, "role", json_string(plan_role_name(group->role)));
    return answer;
}

static json_t *tensor_answer(const plan_source *source, const pkv_tensor *tensor, uint32_t kind)
{
    json_t *answer = json_object();
    cli_set(answer, "size", cli_int(tensor->size));
    cli_set(answer, "offset", cli_int(tensor->offset));
    cli_set(answer, "layer_stride", cli_int(tensor->layer_stride));
    cli_set(answer, "block_stride", cli_int(tensor->block_stride));
    cli_set(answer, "layers", plan_layer_names(source, kind, tensor->layers, tensor->n_layers));
    cli_set(answer, "host", json_boolean(tensor->host));
    return answer;
}

static void put_worker(json_t *answer, const plan_source *source, const pkv_plan *plan, uint32_t w)
{
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, w);
    json_t *groups = json_array(), *tensors = json_array();
    for (uint32_t g = 0; g < worker->n_groups; g++) {
        cli_push(groups, group_answer(source, pkv_plan_group_at(plan, w, g)));
    }
    for (uint32_t t = 0; t < worker->n_tensors; t++) {
        const pkv_tensor *tensor = pkv_plan_tensor_at(plan, w, t);
        const uint32_t kind = pkv_plan_group_at(plan, w, tensor->group)->kind;
        cli_push(tensors, tensor_answer(source, tensor, kind));
    }
    cli_set(answer, "num_blocks", cli_int(pkv_plan_get_summary(plan)->num_blocks));
    cli_set(answer, "bytes_per_block", cli_int(worker->bytes_per_block));
    cli_set(answer, "groups", groups);
    cli_set(answer, "tensors", tensors);
}

/* null where the sizes cannot be resolved */
static json_t *unit(const pkv_plan_summary *s, uint64_t tokens)
{
    return s->sizes_status == PKV_OK ? cli_int(tokens) : json_null();
}

static void put_hisparse(json_t *answer, const plan_source *source, const pkv_plan_summary *s)
{
    if (source->params->hisparse && s->host_num_blocks > 0) {
        cli_set(answer, "host_num_blocks", cli_int(s->host_num_blocks));
        cli_set(answer, "host_block_stride", cli_int(s->host_block_stride));
        cli_set(answer, "steady_concurrency", json_real(s->steady_concurrency));
    }
}

json_t *plan_answer(const plan_source *source, const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    json_t *answer = json_object();
    put_worker(answer, source, plan, 0);
    cli_set(answer, "tokens", cli_int(s->tokens));
    cli_set(answer, "max_concurrency", json_real(s->max_concurrency));
    cli_set(answer, "blocks_per_request", cli_int(s->blocks_per_request));
    cli_set(answer, "max_model_len", cli_int(s->max_model_len));
    cli_set(answer, "layout", json_string(pkv_kv_layout_name(s->layout)));
    cli_set(answer, "zeroing", json_boolean(s->zeroing));
    cli_set(answer, "mixed_precision", json_boolean(s->mixed_precision));
    cli_set(answer, "tp_replicas", cli_int(s->tp_replicas));
    cli_set(answer, "scheduler_block_size", unit(s, s->scheduler_block_size));
    cli_set(answer, "hash_block_size", unit(s, s->hash_block_size));
    cli_set(answer, "hit_alignment", unit(s, s->hit_alignment));
    if (s->sizes_status != PKV_OK) {
        cli_set(answer, "sizes_error", json_string(pkv_plan_sizes_error(plan)));
    }
    if (pkv_plan_check_retention(plan) != PKV_OK) {
        cli_set(answer, "retention_error", json_string(pkv_last_error()));
    }
    put_hisparse(answer, source, s);
    if (s->n_workers > 1) {
        json_t *workers = json_array();
        for (uint32_t w = 0; w < s->n_workers; w++) {
            json_t *worker = json_object();
            put_worker(worker, source, plan, w);
            cli_push(workers, worker);
        }
        cli_set(answer, "workers", workers);
    }
    return answer;
}
