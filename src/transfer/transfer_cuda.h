/* transfer_cuda.h  A plan's transfer by a GPU; built with PKV_CUDA, where there is a nvcc.
 *
 * The plan is made from device addresses by pkv_transfer_plan_create(), which never follows them,
 * so that all checks are those of the processor. */
#ifndef PKVI_TRANSFER_CUDA_H
#define PKVI_TRANSFER_CUDA_H

#include <cuda_runtime.h>

#include <pkv/transfer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues the transfer of one step, or of all layers (step UINT32_MAX), behind what the stream
 * holds. The plan must live until the stream has come so far. Swaps: UNSUPPORTED. NOMEM, IO: what
 * CUDA said is in the text. */
pkv_status pkvi_transfer_cuda(const pkv_transfer_plan *plan, uint32_t step, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
