/* fuzz_config.c  Any bytes as a config.json: read or refused with a text, and what was read can be
 * planned or is refused. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <pkv/model.h>
#include <pkv/plan.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) abort();
}

static void plan(const pkv_model *model)
{
    const pkv_model_info *info = pkv_model_get_info(model);
    pkv_plan_params params;
    pkv_plan *made;
    pkv_plan_params_init(&params);
    params.layers = pkv_model_specs(model);
    params.n_layers = info->n_layers;
    params.available_bytes = INT64_C(1) << 30;
    params.max_model_len = info->max_model_len != 0 ? info->max_model_len : 4096;
    params.auto_fit = 1;
    pkv_status st = pkv_plan_create(&params, &made);
    require((st == PKV_OK) == (made != NULL));
    require(st == PKV_OK || pkv_last_error()[0] != '\0');
    pkv_plan_destroy(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pkv_model_params params;
    pkv_model *model;
    pkv_model_params_init(&params);
    pkv_status st = pkv_model_read_config((const char *)data, size, &params, &model);
    require((st == PKV_OK) == (model != NULL));
    if (st != PKV_OK) {
        require(pkv_last_error()[0] != '\0');
        return 0;
    }
    for (uint32_t i = 0; i < pkv_model_get_info(model)->n_layers; i++) {
        require(pkv_model_layer_at(model, i)->name != NULL);
    }
    plan(model);
    pkv_model_destroy(model);
    return 0;
}
