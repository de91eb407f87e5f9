/* transfer.cu  Gather, scatter and copy on a GPU: one kernel for each pair, one thread for each unit,
 * in strides of the grid. What a thread moves is grid.h, which the tests run on the processor. */
extern "C" {
#include "base/error.h"
#include "transfer/transfer.h"
}
#include "transfer/grid.h"
#include "transfer/transfer_cuda.h"

template <typename Unit>
__global__ void move_units(pkvi_grid grid)
{
    const uint64_t n = pkvi_grid_units(&grid), stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const pkvi_unit unit = pkvi_grid_unit(&grid, i);
        *reinterpret_cast<Unit *>(unit.dst) = *reinterpret_cast<const Unit *>(unit.src);
    }
}

static void launch(const pkvi_grid &grid, cudaStream_t stream)
{
    const uint64_t threads = 256, most = 132 * 16;
    const uint64_t wanted = (pkvi_grid_units(&grid) + threads - 1) / threads;
    const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
    switch (grid.unit) {
    case 16: move_units<uint4><<<blocks, threads, 0, stream>>>(grid); break;
    case 8: move_units<uint2><<<blocks, threads, 0, stream>>>(grid); break;
    case 4: move_units<uint32_t><<<blocks, threads, 0, stream>>>(grid); break;
    case 2: move_units<uint16_t><<<blocks, threads, 0, stream>>>(grid); break;
    default: move_units<uint8_t><<<blocks, threads, 0, stream>>>(grid);
    }
}

/* A copy of a group's runs on the device, freed behind the kernels that read it. */
static cudaError_t upload(const pkvi_run_group *group, pkvi_run **runs, cudaStream_t stream)
{
    const size_t bytes = group->n_runs * sizeof **runs;
    const cudaError_t st = cudaMallocAsync((void **)runs, bytes, stream);
    return st ? st : cudaMemcpyAsync(*runs, group->runs, bytes, cudaMemcpyHostToDevice, stream);
}

static cudaError_t queue_group(const pkv_transfer_plan *plan, uint32_t g, uint64_t first,
                               uint64_t last, cudaStream_t stream)
{
    const pkvi_run_group *group = &plan->groups[g];
    pkvi_run *runs = NULL;
    uint64_t bases = 0;
    cudaError_t st = upload(group, &runs, stream);
    for (uint64_t r = 0; r < group->n_runs; r++) {
        bases |= group->runs[r].src.base | group->runs[r].dst.base;
    }
    for (uint64_t i = first; i < last && st == cudaSuccess; i++) {
        if (plan->pairs[i].group == g) {
            pkvi_grid grid = {plan->pairs[i], runs, group->n_runs, group->n_tokens, 0};
            grid.unit = pkvi_grid_widest(&grid.pair, bases);
            launch(grid, stream);
            st = cudaGetLastError();
        }
    }
    if (runs) {
        const cudaError_t freed = cudaFreeAsync(runs, stream);
        st = st ? st : freed;
    }
    return st;
}

extern "C" pkv_status pkvi_transfer_cuda(const pkv_transfer_plan *plan, uint32_t step,
                                         cudaStream_t stream)
{
    const bool all = step == UINT32_MAX;
    if (plan->swap) {
        return pkvi_fail(PKV_E_UNSUPPORTED, "pkvi_transfer_cuda: swap");
    }
    if (!all && step >= plan->info.n_layers) {
        return pkvi_fail(PKV_E_INVAL, "pkvi_transfer_cuda: step %u of %u layers", step,
                         plan->info.n_layers);
    }
    const uint64_t first = all ? 0 : plan->step_pairs[step];
    const uint64_t last = all ? plan->n_pairs : plan->step_pairs[step + 1];
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        if (plan->groups[g].n_runs == 0) {
            continue;
        }
        const cudaError_t st = queue_group(plan, g, first, last, stream);
        if (st != cudaSuccess) {
            return pkvi_fail(st == cudaErrorMemoryAllocation ? PKV_E_NOMEM : PKV_E_IO,
                             "pkvi_transfer_cuda: %s", cudaGetErrorString(st));
        }
    }
    return PKV_OK;
}
