/* table.c  The table of formats, and texts made of it. */
#include "format/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"

#define LISTS(...)  \
    {               \
        __VA_ARGS__ \
    }
#define AXES(...)   \
    {               \
        __VA_ARGS__ \
    }

enum {
    NL = PKVI_AXIS_NL,
    NB = PKVI_AXIS_NB,
    TWO = PKVI_AXIS_TWO,
    BS = PKVI_AXIS_BS,
    NH = PKVI_AXIS_NH,
    HS = PKVI_AXIS_HS,
    CS = PKVI_AXIS_CS,
    NBBS = PKVI_AXIS_NBBS,
    ONE = PKVI_AXIS_ONE,
    NP = PKVI_AXIS_NP,
    BSV = PKVI_AXIS_BSV,
    BSS = PKVI_AXIS_BSS
};
enum { LAYERS = PKV_FORMAT_LAYER_LIST, KV = PKV_FORMAT_KV_LIST, CROSS = PKV_FORMAT_CROSS_LAYER };

/* Last: kv_size, kv_size of the seed, is_mla, is_hnd, block_axis, flash, mla_or_flash. */
#define ROW(id, backend, lists, axes, structure, ...) \
    [PKV_FORMAT_##id] = {#id, backend, lists, axes, structure, __VA_ARGS__}

static const pkvi_format_row rows[PKV_N_FORMATS] = {
    ROW(NB_NL_TWO_BS_NH_HS, "vLLM CROSS_LAYER", LISTS(0), AXES(NB, NL, TWO, BS, NH, HS), CROSS, 2,
        2, 0, 0, 0, 0, 0),
    ROW(NL_X_TWO_NB_BS_NH_HS, "vLLM non-MLA flash attention", LISTS(NL), AXES(TWO, NB, BS, NH, HS),
        LAYERS, 2, 2, 0, 0, 0, 1, 1),
    ROW(NL_X_NB_TWO_BS_NH_HS, "vLLM non-MLA flash infer", LISTS(NL), AXES(NB, TWO, BS, NH, HS),
        LAYERS, 2, 2, 0, 0, 0, 1, 1),
    ROW(NL_X_NB_BS_HS, "vLLM MLA / SGLang MLA (MP)", LISTS(NL), AXES(NB, BS, HS), LAYERS, 1, 1, 1,
        0, 1, 0, 1),
    ROW(TWO_X_NL_X_NBBS_NH_HS, "SGLang MHA (flash attention and flash infer)", LISTS(TWO, NL),
        AXES(NBBS, NH, HS), KV, 2, 2, 0, 0, 0, 0, 0),
    ROW(NL_X_NBBS_ONE_HS, "SGLang MLA", LISTS(NL), AXES(NBBS, ONE, HS), LAYERS, 1, 1, 1, 0, 0, 0,
        0),
    ROW(NL_X_TWO_NB_NH_BS_HS, "vLLM non-MLA flash attention (HND layout)", LISTS(NL),
        AXES(TWO, NB, NH, BS, HS), LAYERS, 2, 2, 0, 1, 0, 1, 1),
    ROW(NL_X_NB_TWO_NH_BS_HS, "vLLM non-MLA flash infer (HND layout)", LISTS(NL),
        AXES(NB, TWO, NH, BS, HS), LAYERS, 2, 2, 0, 1, 0, 1, 1),
    ROW(NB_NL_TWO_NH_BS_HS, "TRT-LLM cross-layer (HND layout)", LISTS(0),
        AXES(NB, NL, TWO, NH, BS, HS), CROSS, 2, 2, 0, 1, 0, 0, 0),
    ROW(TWO_X_NL_X_NB_BS_NH_HS, "SGLang MHA via MP daemon (4-D inner)", LISTS(TWO, NL),
        AXES(NB, BS, NH, HS), KV, 2, 2, 0, 0, 0, 0, 0),
    ROW(NL_X_NB_NH_BS_TWO_HS, "vLLM non-MLA blocks-first, fused K/V", LISTS(NL),
        AXES(NB, NH, BS, TWO, HS), LAYERS, 1, 2, 0, 1, 0, 1, 0),
    ROW(NL_X_NB_BS_NH_TWO_HS, "vLLM non-MLA blocks-first, fused K/V (NHD)", LISTS(NL),
        AXES(NB, BS, NH, TWO, HS), LAYERS, 1, 1, 0, 0, 0, 1, 0),
    ROW(NL_X_NB_NH_BS_CS, "vLLM non-MLA blocks-first, fused K/V (HND)", LISTS(NL),
        AXES(NB, NH, BS, CS), LAYERS, 1, 1, 0, 1, 1, 1, 0),
    ROW(NL_X_NB_BS_NH_CS, "vLLM non-MLA blocks-first, fused K/V (NHD)", LISTS(NL),
        AXES(NB, BS, NH, CS), LAYERS, 1, 1, 0, 0, 1, 1, 0),
    ROW(NL_X_NB_BSV_BSS, "vLLM MLA", LISTS(NL), AXES(NB, BSV, BSS), LAYERS, 1, 1, 1, 0, 1, 0, 1),
    ROW(NL_X_TWO_NB_NH_ONE_BS_HS, "vLLM-RBLN attention (HND layout)", LISTS(NL),
        AXES(TWO, NB, NH, ONE, BS, HS), LAYERS, 2, 2, 0, 1, 0, 0, 0),
    ROW(NL_X_TWO_X_NB_BS_NH_HS, "vLLM-Ascend: per-layer (K, V) tuples", LISTS(NL, TWO),
        AXES(NB, BS, NH, HS), LAYERS, 2, 2, 0, 0, 0, 0, 0),
    ROW(NL_X_NP_X_NB_BS_ONE_HS, "vLLM-Ascend MLA (latent, rope) tuples", LISTS(NL, NP),
        AXES(NB, BS, ONE, HS), LAYERS, 1, 1, 1, 0, 1, 0, 0),
    ROW(NL_X_NB_BS_NH_HS, "SGLang unified MP independent components", LISTS(NL),
        AXES(NB, BS, NH, HS), LAYERS, 1, 1, 0, 0, 1, 0, 0),
};

static const char *const labels[] = {
    [NL] = "NL", [NB] = "NB",    [TWO] = "2", [BS] = "BS", [NH] = "NH",       [HS] = "HS",
    [CS] = "CS", [NBBS] = "PBS", [ONE] = "1", [NP] = "NP", [BSV] = "BSxVALS", [BSS] = "BSxSCALES",
};

/* Connectors that move layer by layer, and whether the seed has them. */
static const struct {
    const char *name;
    bool seed;
} layerwise[] = {
    {"VLLMPagedMemLayerwiseGPUConnector", true}, {"VLLMBufferLayerwiseGPUConnector", true},
    {"SGLangLayerwiseGPUConnector", true},       {"VLLMPagedMemLayerwiseXPUConnector", true},
    {"VLLMBufferLayerwiseXPUConnector", true},   {"SGLangLayerwiseXPUConnector", true},
    {"SGLangLayerwiseMUSAConnector", false},
};

static bool is_seed(uint32_t revision)
{
    return revision == PKV_FORMAT_REVISION_SEED;
}

const pkvi_format_row *pkvi_format_row_of(uint32_t id)
{
    return &rows[id];
}

uint32_t pkvi_format_known(uint32_t revision)
{
    return is_seed(revision) ? PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS + 1 : PKV_N_FORMATS;
}

uint32_t pkvi_format_rank(uint32_t id)
{
    uint32_t rank = 0;
    while (rank < PKV_MAX_AXES && rows[id].axes[rank] != PKVI_AXIS_NONE) {
        rank++;
    }
    return rank;
}

int pkvi_format_axis(uint32_t id, pkvi_axis axis)
{
    for (int i = 0; i < PKV_MAX_AXES && rows[id].axes[i] != PKVI_AXIS_NONE; i++) {
        const uint8_t here = rows[id].axes[i];
        if (here == axis || (axis == PKVI_AXIS_BS && here == BSV) ||
            (axis == PKVI_AXIS_HS && (here == CS || here == BSS))) {
            return i;
        }
    }
    return -1;
}

uint32_t pkvi_format_kv_size(uint32_t revision, uint32_t id)
{
    return is_seed(revision) ? rows[id].kv_size_seed : rows[id].kv_size;
}

bool pkvi_format_may_pad(uint32_t revision, uint32_t id)
{
    return is_seed(revision) ? id == PKV_FORMAT_NL_X_NB_BS_HS : rows[id].block_axis;
}

/* The seed's accept-lists: flash attention lacks the formats that came later, latent ones too. */
static bool accepts(uint32_t revision, uint32_t id, uint8_t now)
{
    return now && (!is_seed(revision) || id <= PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS);
}

pkv_status pkv_format_get(uint32_t revision, uint64_t id, pkv_format_info *out)
{
    if (!out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_format_get: out is NULL");
    }
    if (id >= pkvi_format_known(revision)) {
        return PKV_E_NOT_FOUND;
    }
    const pkvi_format_row *row = &rows[id];
    *out = (pkv_format_info){
        .name = row->name,
        .backend = row->backend,
        .id = (uint32_t)id,
        .structure = row->structure,
        .kv_size = pkvi_format_kv_size(revision, (uint32_t)id),
        .is_mla = row->is_mla,
        .is_hnd = row->is_hnd,
        .block_axis = pkvi_format_may_pad(revision, (uint32_t)id),
        .flash = accepts(revision, (uint32_t)id, row->flash),
        .mla_or_flash = accepts(revision, (uint32_t)id, row->mla_or_flash),
    };
    return PKV_OK;
}

pkv_status pkv_format_from_name(uint32_t revision, const char *name, uint32_t *id_out)
{
    if (!name || !id_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_format_from_name: name or id_out is NULL");
    }
    for (uint32_t id = 0; id < pkvi_format_known(revision); id++) {
        if (strcmp(rows[id].name, name) == 0) {
            *id_out = id;
            return PKV_OK;
        }
    }
    return PKV_E_NOT_FOUND;
}

/* Size of an axis; 0: it is printed by its label. */
static uint64_t size_of(uint8_t axis, const pkv_format_sizes *s, uint64_t slots)
{
    switch (axis) {
    case NL: return s->nl;
    case NB: return s->nb;
    case NBBS: return slots;
    case BS:
    case BSV:
    case BSS: return s->bs;
    case NH: return s->nh;
    case HS:
    case CS: return s->hs;
    default: return 0;
    }
}

static size_t print_axis(char *text, size_t room, uint8_t axis, const pkv_format_sizes *sizes,
                         uint64_t slots)
{
    const uint64_t size = sizes ? size_of(axis, sizes, slots) : 0;
    const int n = size > 0 ? snprintf(text, room, "%" PRIu64, size)
                           : snprintf(text, room, "%s", labels[axis]);
    return n < 0 ? 0 : (size_t)n;
}

pkv_status pkv_format_text(uint32_t revision, uint64_t id, const pkv_format_sizes *sizes,
                           char *text, size_t room)
{
    char whole[160]; /* 2 levels and 6 axes of 19 digits, and what stands between */
    size_t n = 0;
    uint64_t slots = 0;
    if (!text) {
        return pkvi_fail(PKV_E_INVAL, "pkv_format_text: text is NULL");
    }
    if (id >= pkvi_format_known(revision)) {
        return PKV_E_NOT_FOUND;
    }
    const pkvi_format_row *row = &rows[id];
    pkv_format_sizes s = sizes ? *sizes : (pkv_format_sizes){0};
    if (sizes && !pkvi_mul(s.nb, s.bs, &slots)) {
        return pkvi_fail(PKV_E_OVERFLOW, "pkv_format_text: nb %" PRIu64 " * bs %" PRIu64, s.nb,
                         s.bs);
    }
    if (!is_seed(revision) &&
        (id == PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS || id == PKV_FORMAT_NL_X_NB_BS_NH_TWO_HS)) {
        s.hs /= 2;
    }
    for (int i = 0; i < 2 && row->lists[i] != PKVI_AXIS_NONE; i++) {
        n += print_axis(whole + n, sizeof whole - n, row->lists[i], sizes ? &s : NULL, slots);
        n += (size_t)snprintf(whole + n, sizeof whole - n, " x ");
    }
    for (int i = 0; i < PKV_MAX_AXES && row->axes[i] != PKVI_AXIS_NONE; i++) {
        n += (size_t)snprintf(whole + n, sizeof whole - n, i == 0 ? "[" : ", ");
        n += print_axis(whole + n, sizeof whole - n, row->axes[i], sizes ? &s : NULL, slots);
    }
    n += (size_t)snprintf(whole + n, sizeof whole - n, "]");
    if (n >= room) {
        return pkvi_fail(PKV_E_INVAL, "pkv_format_text: room %zu, %zu needed", room, n + 1);
    }
    memcpy(text, whole, n + 1);
    return PKV_OK;
}

bool pkv_format_connector_is_layerwise(uint32_t revision, const char *connector)
{
    for (size_t i = 0; connector && i < sizeof layerwise / sizeof *layerwise; i++) {
        if (strcmp(layerwise[i].name, connector) == 0) {
            return layerwise[i].seed || !is_seed(revision);
        }
    }
    return false;
}

bool pkv_format_needs_buffer(bool disaggregated)
{
    return !disaggregated;
}
