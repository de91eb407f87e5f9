/* question.c  Documents that ask for less than a plan: merge, uniform, resize, views, quant_mode,
 * layout_of. The member of that name decides; beside it stand a few more. */
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "model/document.h"

#define MAX_TOKENS (UINT64_C(1) << 48)
#define MAX_BLOCKS ((UINT64_C(1) << 31) - 1)
#define MAX_SPECS 65536

/* max_model_len and options, for the limits of the specs. */
static pkv_status read_limits(pkv_document *doc, const pkvi_json_at *root)
{
    json_t *options = NULL;
    doc->params.max_model_len = 1024;
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(root, "max_model_len", 1, MAX_TOKENS, &doc->params.max_model_len));
    PKVI_RETURN_IF(pkvi_json_opt_object(root, "options", &options));
    return pkvi_read_options(doc, options, NULL);
}

static pkv_status read_list(pkv_document *doc, const pkvi_json_at *root, const char *name)
{
    const char *const names[] = {name, "max_model_len", "options"};
    json_t *array = NULL;
    PKVI_RETURN_IF(pkvi_json_check_names(root, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(pkvi_json_opt_array(root, name, &array));
    const size_t n = json_array_size(array);
    if (n == 0 || n > MAX_SPECS) {
        return pkvi_json_bad(root, name, array, "an array of 1 to 65536 specs");
    }
    PKVI_RETURN_IF(read_limits(doc, root));
    return pkvi_read_specs(doc, name, array, n);
}

static pkv_status read_merge(pkv_document *doc, const pkvi_json_at *root)
{
    return read_list(doc, root, "merge");
}

static pkv_status read_uniform(pkv_document *doc, const pkvi_json_at *root)
{
    return read_list(doc, root, "uniform");
}

static pkv_status read_one(pkv_document *doc, const pkvi_json_at *root, const char *name)
{
    json_t *object = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_object(root, name, &object));
    if (!object) {
        return pkvi_json_bad(root, name, NULL, "a spec");
    }
    PKVI_RETURN_IF(read_limits(doc, root));
    return pkvi_read_specs(doc, name, object, 1);
}

static pkv_status read_resize(pkv_document *doc, const pkvi_json_at *root)
{
    static const char *const names[] = {"resize", "block_size", "max_model_len", "options"};
    PKVI_RETURN_IF(pkvi_json_check_names(root, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(pkvi_json_u64(root, "block_size", 1, PKV_SPEC_LIMIT, &doc->question.block_size));
    return read_one(doc, root, "resize");
}

static pkv_status read_layout(const pkvi_json_at *root, const char *name, uint32_t *out)
{
    const char *text;
    PKVI_RETURN_IF(pkvi_json_text(root, name, &text));
    /* the engine's own names only, not the aliases of two of them */
    if (strlen(text) != 5 || pkv_kv_layout_from_name(text, out) != PKV_OK) {
        return pkvi_json_bad(root, name, pkvi_json_get(root, name),
                             "LBHNC, LBNHC, LHBNC, BLHNC, BLNHC or BHLNC");
    }
    return PKV_OK;
}

static pkv_status read_views(pkv_document *doc, const pkvi_json_at *root)
{
    static const char *const names[] = {
        "views",        "layout",       "num_blocks", "num_layers",    "kernel_block_size",
        "layer_stride", "block_stride", "offset",     "max_model_len", "options"};
    pkv_document_question *q = &doc->question;
    PKVI_RETURN_IF(pkvi_json_check_names(root, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(read_layout(root, "layout", &q->layout));
    PKVI_RETURN_IF(pkvi_json_u64(root, "num_blocks", 1, MAX_BLOCKS, &q->num_blocks));
    PKVI_RETURN_IF(pkvi_json_u64(root, "num_layers", 1, MAX_BLOCKS, &q->num_layers));
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(root, "kernel_block_size", 1, PKV_SPEC_LIMIT, &q->kernel_block_size));
    PKVI_RETURN_IF(pkvi_json_opt_u64(root, "block_stride", 1, PKVI_SIZE_MAX, &q->block_stride));
    PKVI_RETURN_IF(pkvi_json_opt_u64(root, "layer_stride", 1, PKVI_SIZE_MAX, &q->layer_stride));
    PKVI_RETURN_IF(pkvi_json_opt_u64(root, "offset", 0, PKVI_SIZE_MAX, &q->offset));
    if ((q->block_stride == 0) != (q->layer_stride == 0)) {
        const char *missing = q->block_stride == 0 ? "block_stride" : "layer_stride";
        return pkvi_json_bad(root, missing, NULL, "both strides of a placed tensor, or none");
    }
    return read_one(doc, root, "views");
}

static pkv_status read_quant_mode(pkv_document *doc, const pkvi_json_at *root)
{
    static const char *const names[] = {"quant_mode"};
    const char *text;
    PKVI_RETURN_IF(pkvi_json_check_names(root, names, 1));
    PKVI_RETURN_IF(pkvi_json_text(root, "quant_mode", &text));
    doc->question.text = pkvi_arena_text(&doc->arena, text);
    return doc->question.text ? PKV_OK : pkvi_document_no_memory();
}

static pkv_status read_layout_of(pkv_document *doc, const pkvi_json_at *root)
{
    static const char *const names[] = {"layout_of"};
    PKVI_RETURN_IF(pkvi_json_check_names(root, names, 1));
    return read_layout(root, "layout_of", &doc->question.layout);
}

pkv_status pkvi_read_question(pkv_document *doc, const pkvi_json_at *root, bool *found)
{
    static const struct {
        const char *name;
        uint32_t kind;
        pkv_status (*read)(pkv_document *doc, const pkvi_json_at *root);
    } questions[] = {
        {"merge", PKV_DOCUMENT_MERGE, read_merge},
        {"uniform", PKV_DOCUMENT_UNIFORM, read_uniform},
        {"resize", PKV_DOCUMENT_RESIZE, read_resize},
        {"views", PKV_DOCUMENT_VIEWS, read_views},
        {"quant_mode", PKV_DOCUMENT_QUANT_MODE, read_quant_mode},
        {"layout_of", PKV_DOCUMENT_LAYOUT_OF, read_layout_of},
    };
    *found = false;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        if (json_object_get(root->json, questions[i].name)) {
            *found = true;
            doc->kind = questions[i].kind;
            return questions[i].read(doc, root);
        }
    }
    return PKV_OK;
}
