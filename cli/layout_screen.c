/* layout_screen.c  A reading for people: each group's axes as they lie in memory, outermost first.
 *
 *     tensor 0 + 0
 *     2 of K and V            every 32,768,000 bytes
 *      '- 1000 blocks         every     32,768
 *          '- 16 tokens       every      2,048
 *              '- 8 heads     every        256
 *                  '- 128 bfloat16 */
#include <inttypes.h>
#include <string.h>

#include "layout.h"

/* What the words of a format's name count. */
static const char *word_of(const char *label)
{
    static const char *const words[][2] = {
        {"TWO", "of K and V"},
        {"NL", "layers"},
        {"NB", "blocks"},
        {"BS", "tokens"},
        {"NH", "heads"},
        {"HS", "elements"},
        {"CS", "elements, K and V"},
        {"NBBS", "tokens"},
        {"ONE", "head"},
        {"BSV", "tokens"},
        {"BSS", "bytes, values and scales"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i][0], label) == 0) {
            return words[i][1];
        }
    }
    return label;
}

/* The axis list of a name: what follows its last "_X_". */
static const char *axes_of(const char *name)
{
    const char *axes = name;
    for (const char *next = strstr(axes, "_X_"); next; next = strstr(axes, "_X_")) {
        axes = next + 3;
    }
    return axes;
}

/* Cuts the next word off an axis list. */
static const char *next_label(const char *axes, char label[8])
{
    size_t n = strcspn(axes, "_");
    (void)snprintf(label, 8, "%.*s", (int)(n < 7 ? n : 7), axes);
    return axes[n] ? axes + n + 1 : axes + n;
}

static uint64_t tight_stride(const pkv_view *v, uint32_t axis)
{
    uint64_t n = 1;
    for (uint32_t i = axis + 1; i < v->rank; i++) {
        n *= v->shape[i];
    }
    return n;
}

static void draw_axes(const char *name, const pkv_view *v)
{
    const char *axes = axes_of(name);
    const uint64_t element = pkv_dtype_bytes(v->dtype);
    for (uint32_t i = 0; i < v->rank; i++) {
        char label[8], left[64];
        axes = next_label(axes, label);
        (void)snprintf(left, sizeof left, "%*s%s%" PRIu64 " %s", (int)(i > 0 ? 4 * i - 4 : 0), "",
                       i > 0 ? " '- " : "", v->shape[i], word_of(label));
        if (v->shape[i] == 1 || i + 1 == v->rank) {
            printf("    %s%s%s\n", left, i + 1 == v->rank ? " of " : "",
                   i + 1 == v->rank ? pkv_dtype_name(v->dtype) : "");
            continue;
        }
        printf("    %-44s every %" PRIu64 " bytes", left, v->strides[i] * element);
        if (v->strides[i] > tight_stride(v, i)) {
            printf(", %" PRIu64 " of them not its own",
                   (v->strides[i] - tight_stride(v, i)) * element);
        }
        printf("\n");
    }
}

static void draw_group(const layout_problem *problem, const pkv_reading *reading, uint32_t number)
{
    const pkv_layout_group *g = pkv_reading_group(reading, number);
    const pkv_layout *l = pkv_reading_layer(reading, g->layers[0]);
    pkv_format_info info = {.name = "?", .backend = "?"};
    const pkv_format_sizes sizes = {g->desc.nl, g->desc.nb, g->desc.bs, g->desc.nh, g->desc.hs};
    char text[160] = "";
    json_t *name = layout_layer_name(problem, g->layers[0]);
    (void)!pkv_format_get(problem->params.revision, l->format, &info);
    (void)!pkv_format_text(problem->params.revision, l->format, &sizes, text, sizeof text);
    printf("%s%s  %s  %s\n  %s\n  %s\n", json_string_value(name), g->n_layers > 1 ? " ..." : "",
           info.name, text, info.backend, l->dense ? "dense" : "padded");
    json_decref(name);
    for (uint32_t i = 0; i < l->n_tensors; i++) {
        printf("\n  tensor %" PRIu32 " + %" PRIu64 " bytes\n", l->tensor[i],
               l->normalized[i].offset * pkv_dtype_bytes(l->normalized[i].dtype));
        draw_axes(info.name, &l->normalized[i]);
    }
    if (l->kv_size == 2 && !l->own_v) {
        printf("\n  K begins at %" PRIu64 ", V at %" PRIu64 "\n", l->offset,
               l->offset + l->kv_stride);
    }
}

void layout_screen(const layout_problem *problem, const pkv_reading *reading)
{
    printf("%" PRIu32 " layer%s\n", pkv_reading_n_layers(reading),
           pkv_reading_n_layers(reading) == 1 ? "" : "s");
    for (uint32_t i = 0; i < pkv_reading_n_groups(reading); i++) {
        printf("\n");
        draw_group(problem, reading, i);
    }
    json_t *warnings = layout_warnings(problem, reading);
    for (size_t i = 0; i < json_array_size(warnings); i++) {
        printf("%swarning: %s\n", i == 0 ? "\n" : "",
               json_string_value(json_array_get(warnings, i)));
    }
    json_decref(warnings);
}
