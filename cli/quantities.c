/* quantities.c  Everything that a spec implies, as JSON. */
#include <stdlib.h>

#include "plan.h"

/* Lengths at which table widths are shown: L, 1, L/2 + 1, 4L + 3. */
static void lengths_of(uint64_t len, uint64_t out[4])
{
    out[0] = len;
    out[1] = 1;
    out[2] = len / 2 + 1;
    out[3] = 4 * len + 3; /* lengths end at 2^48 */
}

typedef pkv_status (*size_call)(const pkv_spec *spec, uint64_t *out);

static void put_size(json_t *object, const char *name, size_call call, const pkv_spec *spec)
{
    uint64_t value = 0;
    const pkv_status st = call(spec, &value);
    cli_set(object, name, cli_quantity(st, value));
}

static json_t *widths(const pkv_spec *spec, const pkv_spec *const *members, size_t n,
                      const pkv_limits *limits)
{
    uint64_t at[4];
    json_t *list = json_array();
    lengths_of(limits->max_model_len, at);
    for (int i = 0; i < 4; i++) {
        uint64_t width = 0;
        const pkv_status st = spec ? pkv_spec_max_blocks(spec, limits, at[i], &width)
                                   : pkv_uniform_max_blocks(members, n, limits, at[i], &width);
        if (st != PKV_OK) {
            json_decref(list);
            return cli_quantity(st, 0);
        }
        cli_push(list, cli_int(width));
    }
    return list;
}

void put_quantities(json_t *object, const pkv_spec *spec, const pkv_limits *limits)
{
    uint64_t value = 0;
    put_size(object, "num_heads", pkv_spec_num_heads, spec);
    put_size(object, "num_states", pkv_spec_num_states, spec);
    put_size(object, "state_content_bytes", pkv_spec_state_content_bytes, spec);
    put_size(object, "page_bytes", pkv_spec_page_bytes, spec);
    put_size(object, "unpadded_page_bytes", pkv_spec_unpadded_page_bytes, spec);
    put_size(object, "block_stride_alignment", pkv_spec_block_stride_alignment, spec);
    put_size(object, "block_table_token_alignment", pkv_spec_table_alignment, spec);
    cli_set(object, "prefix_cacheable", json_boolean(pkv_spec_prefix_cacheable(spec)));
    cli_set(object, "prefix_replay_tokens", cli_int(pkv_spec_prefix_replay_tokens(spec)));
    cli_set(object, "has_layer_views", json_boolean(pkv_spec_has_layer_views(spec)));
    cli_set(object, "uses_slot_mapping", json_boolean(pkv_spec_uses_slot_mapping(spec)));
    pkv_status st = pkv_spec_max_memory_bytes(spec, limits, &value);
    cli_set(object, "max_memory_bytes", cli_quantity(st, value));
    cli_set(object, "max_blocks", widths(spec, NULL, 0, limits));
    st = pkv_spec_admission_cap(spec, limits, &value);
    cli_set(object, "admission_cap", cli_quantity(st, value));
    put_size(object, "retained_tokens", pkv_spec_retained_tokens, spec);
    cli_set(object, "event_kind", json_string(pkv_spec_event_kind(spec)));
    put_size(object, "event_window", pkv_spec_event_window, spec);
}

void put_uniform_quantities(json_t *object, const pkv_spec *const *specs, size_t n,
                            const pkv_limits *limits)
{
    static const char *const of_one_layer[] = {"num_heads",           "num_states",
                                               "state_content_bytes", "unpadded_page_bytes",
                                               "admission_cap",       "block_stride_alignment",
                                               "retained_tokens"};
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof of_one_layer / sizeof *of_one_layer; i++) {
        cli_set(object, of_one_layer[i], json_null());
    }
    pkv_status st = pkv_uniform_page_bytes(specs, n, &value);
    cli_set(object, "page_bytes", cli_quantity(st, value));
    put_size(object, "block_table_token_alignment", pkv_spec_table_alignment, specs[0]);
    cli_set(object, "prefix_cacheable", json_boolean(pkv_uniform_prefix_cacheable(specs, n)));
    cli_set(object, "prefix_replay_tokens", cli_int(pkv_uniform_prefix_replay_tokens(specs, n)));
    cli_set(object, "has_layer_views", json_true());
    cli_set(object, "uses_slot_mapping", json_boolean(pkv_spec_uses_slot_mapping(specs[0])));
    st = pkv_uniform_max_memory_bytes(specs, n, limits, &value);
    cli_set(object, "max_memory_bytes", cli_quantity(st, value));
    cli_set(object, "max_blocks", widths(NULL, specs, n, limits));
    cli_set(object, "event_kind", json_string(pkv_uniform_event_kind(specs, n)));
    st = pkv_uniform_event_window(specs, n, &value);
    cli_set(object, "event_window", cli_quantity(st, value));
}

json_t *spec_json(const pkv_spec *spec)
{
    size_t len = 0;
    if (pkv_spec_to_json(spec, NULL, 0, &len) != PKV_OK) {
        return cli_error(PKV_E_INVAL);
    }
    char *text = malloc(len + 1);
    json_t *value = NULL;
    if (text && pkv_spec_to_json(spec, text, len + 1, &len) == PKV_OK) {
        value = json_loads(text, 0, NULL);
    }
    free(text);
    return value;
}
