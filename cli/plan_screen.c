/* plan_screen.c  One screen for people: does it fit, what binds, what things cost. */
#include <inttypes.h>

#include "plan.h"

/* "1,234,567" */
static const char *grouped(uint64_t n, char text[32])
{
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    int out = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            text[out++] = ',';
        }
        text[out++] = digits[i];
    }
    text[out] = '\0';
    return text;
}

/* Bytes of a group's pages in one block, without padding. */
static double used_bytes(const pkv_group *group)
{
    double sum = 0;
    for (uint32_t c = 0; c < group->n_classes; c++) {
        uint64_t page;
        const pkv_spec *spec = group->classes[c].spec;
        if (pkv_spec_unpadded_page_bytes(spec, &page) != PKV_OK &&
            pkv_spec_page_bytes(spec, &page) != PKV_OK) {
            page = 0;
        }
        sum += (double)page * group->classes[c].n_layers;
    }
    return sum;
}

static void print_groups(const pkv_plan *plan)
{
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    printf("  %-5s %-24s %6s %6s %12s %12s %7s %12s\n", "group", "kind", "layers", "block", "page",
           "in a block", "waste", "a request");
    for (uint32_t g = 0; g < worker->n_groups; g++) {
        const pkv_group *group = pkv_plan_group_at(plan, 0, g);
        const double used = used_bytes(group);
        const double room = (double)(group->host ? s->host_block_stride : worker->bytes_per_block);
        uint64_t blocks = 0;
        char page[32], bytes[32], text[32];
        if (pkv_plan_group_blocks(plan, group, s->max_model_len, &blocks) != PKV_OK) {
            blocks = 0;
        }
        printf("  %-5u %-24s %6u %6" PRIu64 " %12s %12s %6.1f%% %12s\n", g,
               plan_kind_name(group->kind), group->n_layers, group->block_size,
               cli_size((double)group->page_bytes, page), cli_size(used, bytes),
               room > 0 ? 100 * (room - used) / room : 0, grouped(blocks, text));
    }
}

/* Bytes that one token adds: while every layer grows, and once all windows are full. */
static void token_cost(const plan_source *source, double *first, double *later)
{
    *first = *later = 0;
    for (uint32_t i = 0; i < source->params->n_layers; i++) {
        const pkv_spec *spec = &source->params->layers[i];
        uint64_t page, cap;
        pkv_limits limits;
        if (spec->kind == PKV_KIND_MAMBA || spec->kind == PKV_KIND_CIRCULAR_BUFFER ||
            pkv_spec_unpadded_page_bytes(spec, &page) != PKV_OK ||
            pkv_plan_params_limits(source->params, &limits) != PKV_OK) {
            continue;
        }
        const double bytes = (double)page / (double)spec->block_size;
        *first += bytes;
        if (pkv_spec_admission_cap(spec, &limits, &cap) == PKV_E_NOT_FOUND) {
            *later += bytes;
        }
    }
}

static void print_cost(const plan_source *source, const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
    double first, later;
    char a[32], b[32], c[32], d[32];
    token_cost(source, &first, &later);
    printf("  one token            %s", cli_size(first, a));
    if (later < first) {
        printf("; %s once all windows are full", cli_size(later, b));
    }
    printf("\n  one block            %s\n", cli_size((double)worker->bytes_per_block, a));
    printf("  one full request     %s: %s tokens, %s blocks\n",
           cli_size((double)s->blocks_per_request * (double)worker->bytes_per_block, b),
           grouped(s->max_model_len, c), grouped(s->blocks_per_request, d));
}

static void print_budget(const plan_source *source, const pkv_plan *plan, uint32_t dp)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
    const bool many = s->max_concurrency > (double)source->max_num_seqs;
    char a[32], b[32], c[32];
    printf("  fits                 yes: %s blocks, %s of the budget\n", grouped(s->num_blocks, a),
           cli_size((double)worker->bytes, b));
    printf("  requests at once     %.2f of %s tokens", s->max_concurrency,
           grouped(s->max_model_len, c));
    if (s->steady_concurrency > 0) {
        printf("; %.2f once they read from the host", s->steady_concurrency);
    }
    printf("\n  tokens               %s", grouped(s->tokens, a));
    if (dp > 1) {
        printf(" on each of %u replicas, %s together", dp, grouped(s->tokens * dp, b));
    }
    printf("\n  binds                ");
    if (many) {
        printf("max_num_seqs: %" PRIu64 " requests run, memory would hold %.0f\n",
               source->max_num_seqs, s->max_concurrency);
    } else {
        printf("memory: up to %" PRIu64 " requests may run, %.2f full ones fit\n",
               source->max_num_seqs, s->max_concurrency);
    }
}

static void print_notes(const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    if (s->sizes_status == PKV_OK && s->caching) {
        printf("  prefix hits          end on multiples of %" PRIu64 " tokens\n", s->hit_alignment);
    } else if (s->sizes_status != PKV_OK) {
        printf("  prefix hits          none: %s\n", pkv_plan_sizes_error(plan));
    } else {
        printf("  prefix hits          none: caching is off\n");
    }
    if (s->tp_replicas > 1) {
        printf("  replicas             %" PRIu64 " tensor-parallel ranks hold the same content\n",
               s->tp_replicas);
    }
    if (s->zeroing) {
        printf("  zeroing              new blocks must be zeroed before use\n");
    }
    if (s->n_workers > 1) {
        printf("  stages               %" PRIu32 "; the figures are the first one's, blocks are "
               "those of the poorest\n",
               s->n_workers);
    }
    if (pkv_plan_check_retention(plan) != PKV_OK) {
        printf("  retention            %s\n", pkv_last_error());
    }
}

void print_plan_screen(const plan_source *source, const pkv_model *model, const pkv_plan *plan,
                       bool has_budget, uint32_t dp)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    if (model) {
        const pkv_model_info *info = pkv_model_get_info(model);
        printf("%s: %u layers, %" PRIu64 " KV heads, cache dtype %s", info->architecture,
               info->n_model_layers, info->n_kv_heads, info->cache_dtype);
    } else {
        printf("%u layers", source->params->n_layers);
    }
    printf(", layout %s\n\n", pkv_kv_layout_name(s->layout));
    if (has_budget) {
        print_budget(source, plan, dp);
    }
    print_cost(source, plan);
    print_notes(plan);
    printf("\n");
    print_groups(plan);
}
