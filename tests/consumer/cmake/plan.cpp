// plan.cpp  A user of the installed library, in C++: layers in, the blocks that fit out.
#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

#include <pkv/pkv.h>

static void check(pkv_status status)
{
    if (status != PKV_OK) throw std::runtime_error(pkv_last_error());
}

static pkv_spec layer()
{
    pkv_spec spec;
    check(pkv_spec_init(&spec, PKV_KIND_FULL));
    spec.dtype = PKV_DTYPE_BFLOAT16;
    spec.block_size = 16;
    spec.num_kv_heads = 8;
    spec.head_size = 128;
    check(pkv_spec_finish(&spec));
    return spec;
}

int main()
{
    try {
        const std::vector<pkv_spec> layers(32, layer());
        pkv_plan_params params;
        pkv_plan_params_init(&params);
        params.layers = layers.data();
        params.n_layers = static_cast<uint32_t>(layers.size());
        params.available_bytes = INT64_C(1) << 33;
        params.max_model_len = 8192;
        pkv_plan *created;
        check(pkv_plan_create(&params, &created));
        const std::unique_ptr<pkv_plan, void (*)(pkv_plan *)> plan(created, pkv_plan_destroy);
        std::cout << pkv_version() << ": " << pkv_plan_get_summary(plan.get())->num_blocks
                  << " blocks\n";
        return pkv_model_architecture_at(0) ? 0 : 1;
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
