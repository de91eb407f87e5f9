/* plan.c  A user of the installed library, in C: a model's config in, the blocks that fit out. */
#include <stdio.h>
#include <string.h>

#include <pkv/pkv.h>

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
    " \"hidden_size\": 4096, \"num_hidden_layers\": 32,"
    " \"num_attention_heads\": 32, \"num_key_value_heads\": 8,"
    " \"max_position_embeddings\": 8192, \"torch_dtype\": \"bfloat16\"}";

static int print_plan(const pkv_model *model)
{
    pkv_plan *plan;
    pkv_plan_params params;
    pkv_plan_params_init(&params);
    params.layers = pkv_model_specs(model);
    params.n_layers = pkv_model_get_info(model)->n_layers;
    params.available_bytes = INT64_C(1) << 33;
    params.max_model_len = pkv_model_get_info(model)->max_model_len;
    if (pkv_plan_create(&params, &plan) != PKV_OK) {
        fprintf(stderr, "%s\n", pkv_last_error());
        return 1;
    }
    printf("%s: %llu blocks\n", pkv_version(),
           (unsigned long long)pkv_plan_get_summary(plan)->num_blocks);
    pkv_plan_destroy(plan);
    return 0;
}

int main(void)
{
    pkv_model *model;
    pkv_model_params params;
    pkv_model_params_init(&params);
    if (pkv_model_read_config(config, strlen(config), &params, &model) != PKV_OK) {
        fprintf(stderr, "%s\n", pkv_last_error());
        return 1;
    }
    const int status = print_plan(model);
    pkv_model_destroy(model);
    return status;
}
