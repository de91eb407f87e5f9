/* choose_layout.c  The one physical layout that all layers of a model share. */
#include <inttypes.h>

#include "base/error.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"

/* The most preferred layout first; all are supported. */
static const uint8_t preference[] = {PKV_LAYOUT_LBNHC, PKV_LAYOUT_LBHNC, PKV_LAYOUT_BLNHC,
                                     PKV_LAYOUT_BLHNC, PKV_LAYOUT_BHLNC, PKV_LAYOUT_LHBNC};

/* Specs of different page axes can only alias where a page is one run of bytes; sharded and
 * replicated attention of different pages need groups of their own, side by side in a block. */
static pkv_status layout_needs(pkvi_planner *p, const pkvi_layers *layers, bool *compact,
                               bool *outermost)
{
    pkvi_distinct set;
    uint64_t heads = 0, states = 0, page = 0;
    bool axes_differ = false, pages_differ = false, sharded = false, replicated = false;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    for (uint32_t i = 0; i < set.n; i++) {
        const pkv_spec *spec = set.pointer[i];
        const uint64_t own_page = p->table.entries[set.spec[i]]->page;
        uint64_t h, s;
        PKVI_RETURN_IF(pkv_spec_num_heads(spec, &h));
        PKVI_RETURN_IF(pkv_spec_num_states(spec, &s));
        axes_differ |= i > 0 && (h != heads || s != states || own_page != page);
        pages_differ |= i > 0 && own_page != page;
        heads = i > 0 ? heads : h;
        states = i > 0 ? states : s;
        page = i > 0 ? page : own_page;
        if (pkvi_is(spec, PKVI_IS_ATTENTION) && pkv_spec_uses_slot_mapping(spec)) {
            sharded |= spec->dcp_sharded != 0;
            replicated |= spec->dcp_sharded == 0;
        }
    }
    *compact = axes_differ;
    *outermost = sharded && replicated && pages_differ;
    return PKV_OK;
}

pkv_status pkvi_choose_layout(pkvi_planner *p, const pkvi_layers *layers)
{
    bool compact, outermost;
    const uint32_t wanted = p->params->layout;
    PKVI_RETURN_IF(layout_needs(p, layers, &compact, &outermost));
    for (size_t i = 0; i < sizeof preference; i++) {
        const uint32_t layout = preference[i];
        if ((!compact || pkv_kv_layout_is_block_compact(layout)) &&
            (!outermost || pkv_kv_layout_is_block_outermost(layout)) &&
            (wanted == PKV_LAYOUT_AUTO || wanted == layout)) {
            p->layout = layout;
            return PKV_OK;
        }
    }
    return pkvi_fail(PKV_E_VALUE,
                     "pkv_plan_create: layout %s cannot hold these specs: %s is needed",
                     pkv_kv_layout_name(wanted),
                     outermost ? "the block outermost" : "every page in one run of bytes");
}
