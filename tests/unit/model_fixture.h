/* model_fixture.h  What the tests of the model reader share. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pkv/model.h>

/* A config of the smallest kind: the fields of one layer, and more behind it. */
#define CONFIG(architecture, more)                                           \
    "{\"architectures\": [\"" architecture "\"], \"num_hidden_layers\": 1, " \
    "\"hidden_size\": 1024, \"num_attention_heads\": 8, \"torch_dtype\": \"bfloat16\"" more "}"

static inline pkv_status read_as(const char *json, uint32_t tp, const char *cache_dtype,
                                 pkv_model **out)
{
    pkv_model_params params;
    pkv_model_params_init(&params);
    params.tp = tp;
    params.cache_dtype = cache_dtype;
    return pkv_model_read_config(json, strlen(json), &params, out);
}

/* A model that must be readable. */
static inline pkv_model *read_model(const char *json)
{
    pkv_model *model;
    if (read_as(json, 1, "auto", &model) != PKV_OK) {
        fail_msg("%s", pkv_last_error());
    }
    return model;
}

/* Refused with that status, a text that begins with the function and holds `part`, and no model. */
static inline void assert_refused(const char *json, uint32_t tp, const char *cache_dtype,
                                  pkv_status status, const char *part)
{
    pkv_model *model = (pkv_model *)(uintptr_t)1;
    const pkv_status st = read_as(json, tp, cache_dtype, &model);
    if (st != status) {
        fail_msg("%s instead of %s: %s", pkv_status_name(st), pkv_status_name(status), json);
    }
    assert_null(model);
    if (strncmp(pkv_last_error(), "pkv_model_read_config: ", 23) != 0 ||
        !strstr(pkv_last_error(), part) || strchr(pkv_last_error(), '\n')) {
        fail_msg("\"%s\" lacks \"%s\"", pkv_last_error(), part);
    }
}

static inline void assert_invalid(const char *json, const char *part)
{
    assert_refused(json, 1, "auto", PKV_E_INVAL, part);
}

/* The kinds of the layers: F full, W window, C chunk, L latent, X other. */
static inline void assert_layers(const char *json, const char *kinds)
{
    pkv_model *model = read_model(json);
    const uint32_t n = pkv_model_get_info(model)->n_layers;
    char got[128];
    assert_true(n < sizeof got);
    for (uint32_t i = 0; i < n; i++) {
        switch (pkv_model_specs(model)[i].kind) {
        case PKV_KIND_FULL: got[i] = 'F'; break;
        case PKV_KIND_SLIDING_WINDOW: got[i] = 'W'; break;
        case PKV_KIND_CHUNKED_LOCAL: got[i] = 'C'; break;
        case PKV_KIND_MLA: got[i] = 'L'; break;
        default: got[i] = 'X'; break;
        }
    }
    got[n] = '\0';
    assert_string_equal(got, kinds);
    pkv_model_destroy(model);
}

/* Bytes that one token costs over all layers of one rank. */
static inline uint64_t token_bytes(const pkv_model *model)
{
    uint64_t sum = 0, page;
    for (uint32_t i = 0; i < pkv_model_get_info(model)->n_layers; i++) {
        const pkv_spec *spec = &pkv_model_specs(model)[i];
        assert_int_equal(pkv_spec_page_bytes(spec, &page), PKV_OK);
        sum += page / spec->block_size;
    }
    return sum;
}

#endif
