/* plan_derived.c  What --derived adds: quantities of layers and groups, and of the configuration
 * that a worker is handed. */
#include <stdlib.h>

#include "plan.h"

static json_t *layer_quantities(const plan_source *source, const pkv_limits *limits,
                                pkv_spec *specs)
{
    const pkv_plan_params *p = source->params;
    const uint64_t extra = pkv_plan_params_extra_retained(p);
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint64_t retained;
        json_t *one = json_object();
        specs[i] = p->layers[i];
        if (pkv_spec_retained_tokens(&specs[i], &retained) == PKV_OK) {
            specs[i].extra_retained_tokens = extra;
        }
        cli_set(one, "name", json_string(source->layer_name(source->ctx, i)));
        put_quantities(one, &specs[i], limits);
        cli_push(list, one);
    }
    return list;
}

/* One pointer per layer that a group describes, in its order. */
static const pkv_spec **members_of(const pkv_group *group)
{
    const pkv_spec **members = malloc(sizeof *members * (group->n_spec_layers + 1u));
    for (uint32_t i = 0; members && i < group->n_spec_layers; i++) {
        members[i] = group->classes[group->class_of[i]].spec;
    }
    return members;
}

static json_t *uniform_spec(const plan_source *source, const pkv_group *group,
                            const pkv_spec *const *members)
{
    json_t *spec = json_object(), *layers = json_object();
    cli_set(spec, "kind", json_string("uniform"));
    cli_set(spec, "block_size", cli_int(group->block_size));
    cli_set(spec, "dcp_sharded", json_boolean(group->classes[0].spec->dcp_sharded));
    for (uint32_t i = 0; i < group->n_spec_layers; i++) {
        cli_set(layers, source->layer_name(source->ctx, group->spec_layers[i]),
                spec_json(members[i]));
    }
    cli_set(spec, "layers", layers);
    return spec;
}

static json_t *group_quantities(const plan_source *source, const pkv_group *group,
                                const pkv_limits *limits)
{
    json_t *one = json_object();
    if (group->uniform_type) {
        const pkv_spec **members = members_of(group);
        if (!members) {
            json_decref(one);
            return NULL;
        }
        cli_set(one, "spec", uniform_spec(source, group, members));
        put_uniform_quantities(one, members, group->n_spec_layers, limits);
        free((void *)members);
    } else {
        cli_set(one, "spec", spec_json(group->classes[0].spec));
        put_quantities(one, group->classes[0].spec, limits);
    }
    cli_set(one, "is_eagle", json_boolean(group->is_eagle));
    cli_set(one, "host", json_boolean(group->host));
    cli_set(one, "transfer", json_boolean(group->transfer));
    cli_set(one, "role", json_string(plan_role_name(group->role)));
    return one;
}

static bool is_cacheable(const pkv_group *group)
{
    for (uint32_t c = 0; c < group->n_classes; c++) {
        if (!pkv_spec_prefix_cacheable(group->classes[c].spec)) {
            return false;
        }
    }
    return true;
}

/* Group numbers and layer lists that connectors work with. */
static void put_transfer(json_t *config, const plan_source *source, const pkv_plan *plan,
                         uint32_t n_groups)
{
    json_t *ids = json_array(), *index = json_object(), *select = json_array();
    json_t *cacheable = json_array(), *cacheable_layers = json_array(), *host = json_array();
    uint64_t n_transfer = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        const pkv_group *group = pkv_plan_group_at(plan, 0, g);
        if (group->host) {
            cli_push(host, cli_int(g));
        }
        if (!group->transfer) {
            continue;
        }
        cli_push(ids, cli_int(g));
        cli_push(select, json_pack("[i, i]", (int)g, (int)(100 + g)));
        for (uint32_t i = 0; i < group->n_layers; i++) {
            cli_set(index, source->layer_name(source->ctx, group->layers[i]), cli_int(n_transfer));
        }
        n_transfer++;
        if (is_cacheable(group)) {
            cli_push(cacheable, cli_int(g));
            cli_push(cacheable_layers,
                     plan_layer_names(source, group->kind, group->layers, group->n_layers));
        }
    }
    cli_set(config, "transfer_group_ids", ids);
    cli_set(config, "transfer_index", index);
    cli_set(config, "select_transfer", select);
    cli_set(config, "prefix_cacheable_group_ids", cacheable);
    cli_set(config, "prefix_cacheable_layers", cacheable_layers);
    cli_set(config, "host_group_ids", host);
}

static json_t *config_of(const plan_source *source, const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
    const uint64_t retention = pkv_plan_retention_interval(plan);
    json_t *config = json_object(), *blocks = json_array();
    put_transfer(config, source, plan, worker->n_groups);
    for (uint32_t t = 0; t < worker->n_tensors; t++) {
        const bool host = pkv_plan_tensor_at(plan, 0, t)->host;
        cli_push(blocks, cli_int(host ? s->host_num_blocks : s->num_blocks));
    }
    cli_set(config, "tensor_num_blocks", blocks);
    cli_set(config, "has_mamba", json_boolean(worker->has_mamba));
    cli_set(config, "mixed_precision", json_boolean(worker->mixed_precision));
    cli_set(config, "zeroing", json_boolean(worker->zeroing));
    cli_set(config, "retention_interval",
            retention == PKV_RETAIN_DENSE ? json_null() : cli_int(retention));
    return config;
}

json_t *plan_derived(const plan_source *source, const pkv_plan *plan)
{
    const pkv_plan_params *p = source->params;
    pkv_limits limits;
    uint64_t longest = 0;
    if (pkv_plan_params_limits(p, &limits) != PKV_OK) {
        return NULL;
    }
    pkv_spec *specs = calloc(p->n_layers + 1u, sizeof *specs);
    if (!specs) {
        return NULL;
    }
    json_t *derived = json_object();
    cli_set(derived, "layers", layer_quantities(source, &limits, specs));
    if (p->n_workers == 0) {
        const pkv_status st =
            pkv_estimate_max_model_len(specs, p->n_layers, &limits, p->available_bytes, &longest);
        cli_set(derived, "estimated_max_model_len", cli_quantity(st, longest));
    }
    free(specs);
    if (plan) {
        const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
        json_t *groups = json_array();
        for (uint32_t g = 0; g < worker->n_groups; g++) {
            cli_push(groups, group_quantities(source, pkv_plan_group_at(plan, 0, g),
                                              pkv_plan_get_limits(plan)));
        }
        cli_set(derived, "groups", groups);
        cli_set(derived, "config", config_of(source, plan));
    }
    return derived;
}
