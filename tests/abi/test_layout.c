/* test_layout.c  The promises of version.h that a compiler can check: where fields lie (on LP64),
 * and the numbers of enumerators. A line that has to change is a broken promise; a new one is not.
 */
#include <stddef.h>

#include <pkv/pkv.h>

#define IS(name, number) _Static_assert((name) == (number), #name)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

#ifdef __LP64__
SIZE(pkv_plane, 56);
SIZE(pkv_layer_pages, 32);
SIZE(pkv_alloc, 24);
SIZE(pkv_format_info, 40);
SIZE(pkv_format_sizes, 40);
SIZE(pkv_view, 144);
SIZE(pkv_token_rows, 56);
SIZE(pkv_format_hints, 40);
SIZE(pkv_engine_layer, 16);
SIZE(pkv_format_params, 104);
SIZE(pkv_layout_v, 32);
SIZE(pkv_layout, 616);
SIZE(pkv_page_desc, 64);
SIZE(pkv_tensor_pointer, 16);
SIZE(pkv_layout_group, 96);
SIZE(pkv_refusal, 648);
SIZE(pkv_ratio, 8);
SIZE(pkv_state, 56);
SIZE(pkv_spec, 280);
SIZE(pkv_limits, 32);
SIZE(pkv_kv_view, 88);
SIZE(pkv_plan_worker, 24);
SIZE(pkv_plan_params, 160);
SIZE(pkv_group_class, 24);
SIZE(pkv_group, 72);
SIZE(pkv_tensor, 56);
SIZE(pkv_worker_plan, 32);
SIZE(pkv_plan_summary, 136);
SIZE(pkv_key, 32);
SIZE(pkv_media, 24);
SIZE(pkv_extras, 64);
SIZE(pkv_hasher_params, 32);
SIZE(pkv_unit_extras, 64);
SIZE(pkv_chain, 64);
SIZE(pkv_event, 80);
SIZE(pkv_event_sink, 16);
SIZE(pkv_residency, 48);
SIZE(pkv_pool_params, 136);
SIZE(pkv_cache_params, 112);
SIZE(pkv_cache_info, 56);
SIZE(pkv_cache_group, 48);
SIZE(pkv_seq_params, 64);
SIZE(pkv_hit, 16);
SIZE(pkv_allocate_params, 72);
SIZE(pkv_block_copy, 8);
SIZE(pkv_allocate_result, 56);
SIZE(pkv_seq_info, 48);
SIZE(pkv_step, 32);
SIZE(pkv_cache_stats, 64);
SIZE(pkv_encoder_params, 24);
SIZE(pkv_encoder_input, 16);
SIZE(pkv_ring_params, 64);
SIZE(pkv_ring, 32);
SIZE(pkv_transfer_refusal, 64);
SIZE(pkv_transfer_buffer, 16);
SIZE(pkv_transfer_pages, 32);
SIZE(pkv_transfer_chunks, 32);
SIZE(pkv_transfer_params, 128);
SIZE(pkv_transfer_info, 32);
SIZE(pkv_model_params, 32);
SIZE(pkv_model_layer, 24);
SIZE(pkv_model_info, 72);
SIZE(pkv_document_settings, 40);
SIZE(pkv_document_question, 72);
SIZE(pkv_keys_request, 144);

AT(pkv_spec, block_size, 32);
AT(pkv_spec, tokens_per_state, 104);
AT(pkv_spec, cache_dtype, 176);
AT(pkv_spec, n_states, 208);
AT(pkv_spec, blocks_per_request, 240);
AT(pkv_plan_params, layers, 8);
AT(pkv_plan_params, max_model_len, 48);
AT(pkv_plan_params, tp, 88);
AT(pkv_plan_params, draft_method, 112);
AT(pkv_plan_params, retention_interval, 152);
AT(pkv_group, layers, 24);
AT(pkv_group, is_eagle, 68);
AT(pkv_group, spec_layers, 32);
AT(pkv_tensor, layers, 32);
AT(pkv_tensor, host, 48);
AT(pkv_plan_summary, sizes_status, 112);
AT(pkv_plan_summary, zeroing, 124);
AT(pkv_encoder_params, encoder_decoder, 4);
AT(pkv_encoder_params, capacity, 8);
AT(pkv_ring_params, row_bytes, 24);
AT(pkv_ring_params, block_stride, 48);
AT(pkv_ring, rows_per_block, 16);
AT(pkv_model_params, cache_dtype, 24);
AT(pkv_model_info, max_model_len, 24);
AT(pkv_model_info, dtype, 64);
AT(pkv_document_settings, max_num_seqs, 32);
AT(pkv_format_params, hints, 32);
AT(pkv_format_params, alloc, 96);
AT(pkv_layout, num_blocks, 24);
AT(pkv_layout, v, 128);
AT(pkv_layout, normalized, 176);
AT(pkv_layout, odd_order, 608);
AT(pkv_view, shape, 16);
AT(pkv_layout_group, desc, 32);
AT(pkv_extras, has_embeds, 60);
AT(pkv_hasher_params, cluster_seed, 24);
AT(pkv_unit_extras, embeds_digest, 32);
AT(pkv_keys_request, group, 136);
#endif

SIZE(pkv_status, 4);

IS(PKV_OK, 0);
IS(PKV_E_INVAL, -1);
IS(PKV_E_NOMEM, -2);
IS(PKV_E_OVERFLOW, -3);
IS(PKV_E_NO_BLOCKS, -4);
IS(PKV_E_NOT_FOUND, -5);
IS(PKV_E_IO, -6);
IS(PKV_E_VERSION, -7);
IS(PKV_E_CORRUPT, -8);
IS(PKV_E_AGAIN, -9);
IS(PKV_E_UNSUPPORTED, -10);
IS(PKV_E_VALUE, -11);
IS(PKV_E_ASSERT, -12);
IS(PKV_E_NOTIMPL, -13);
IS(PKV_E_AMBIGUOUS, -14);

IS(PKV_KIND_FULL, 0);
IS(PKV_KIND_MLA, 1);
IS(PKV_KIND_HIDDEN_STATE, 2);
IS(PKV_KIND_RSWA, 3);
IS(PKV_KIND_SINK_FULL, 4);
IS(PKV_KIND_SLIDING_WINDOW, 5);
IS(PKV_KIND_SLIDING_WINDOW_MLA, 6);
IS(PKV_KIND_CHUNKED_LOCAL, 7);
IS(PKV_KIND_CIRCULAR_BUFFER, 8);
IS(PKV_KIND_KPOOL_TAIL, 9);
IS(PKV_KIND_MAMBA, 10);
IS(PKV_KIND_CROSS, 11);
IS(PKV_KIND_ENCODER_ONLY, 12);
IS(PKV_KIND_HISPARSE_HOT, 13);
IS(PKV_KIND_HISPARSE_RESIDENT, 14);

IS(PKV_DTYPE_NONE, 0);
IS(PKV_DTYPE_FLOAT64, 1);
IS(PKV_DTYPE_FLOAT32, 2);
IS(PKV_DTYPE_FLOAT16, 3);
IS(PKV_DTYPE_BFLOAT16, 4);
IS(PKV_DTYPE_INT64, 5);
IS(PKV_DTYPE_INT32, 6);
IS(PKV_DTYPE_INT16, 7);
IS(PKV_DTYPE_INT8, 8);
IS(PKV_DTYPE_UINT8, 9);
IS(PKV_DTYPE_BOOL, 10);
IS(PKV_DTYPE_FLOAT8_E4M3FN, 11);
IS(PKV_DTYPE_FLOAT8_E5M2, 12);
IS(PKV_DTYPE_FLOAT8_E4M3FNUZ, 13);
IS(PKV_DTYPE_UINT16, 15);
IS(PKV_DTYPE_FLOAT8_E5M2FNUZ, 16);
IS(PKV_FORMAT_NB_NL_TWO_BS_NH_HS, 0);
IS(PKV_FORMAT_NL_X_NB_BS_HS, 3);
IS(PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS, 10);
IS(PKV_FORMAT_NL_X_NB_BS_NH_HS, 18);
IS(PKV_N_FORMATS, 19);
IS(PKV_ENGINE_ATOM, 3);
IS(PKV_STRUCTURE_CROSS_LAYER, 3);
IS(PKV_LIST_UNIFIED, 2);
IS(PKV_PLANES_MLA, 2);
IS(PKV_KV_AXIS_SECOND, 2);
IS(PKV_VIEW_OVERLAPPING, 2);
IS(PKV_FORMAT_CROSS_LAYER, 2);
IS(PKV_FORMAT_REVISION_SEED, 1);
IS(PKV_DTYPE_UINT64, 14);

IS(PKV_QUANT_NONE, 0);
IS(PKV_QUANT_FP8_PER_TENSOR, 1);
IS(PKV_QUANT_INT8_PER_TOKEN_HEAD, 2);
IS(PKV_QUANT_FP8_PER_TOKEN_HEAD, 3);
IS(PKV_QUANT_INT4_PER_TOKEN_HEAD, 4);
IS(PKV_QUANT_NVFP4, 5);
IS(PKV_QUANT_TURBOQUANT_K8V4, 6);
IS(PKV_QUANT_TURBOQUANT_4BIT_NC, 7);
IS(PKV_QUANT_TURBOQUANT_K3V4_NC, 8);
IS(PKV_QUANT_TURBOQUANT_3BIT_NC, 9);
IS(PKV_QUANT_NVFP4_DS_MLA, 10);
IS(PKV_QUANT_ULTRAQUANT_4BIT, 11);
IS(PKV_QUANT_OCTAVE_K3V4, 12);
IS(PKV_QUANT_OCTAVE_K3V3, 13);
IS(PKV_QUANT_OCTAVE_K3V3_COMPACT, 14);
IS(PKV_QUANT_CUSTOM, 15);

IS(PKV_ROLE_SPARSE, 0);
IS(PKV_ROLE_INDEXER, 1);

IS(PKV_STRIDE_ANY, 0);
IS(PKV_STRIDE_BYTES, 1);
IS(PKV_STRIDE_KERNEL_BLOCKS, 2);

IS(PKV_MAMBA_NONE, 0);
IS(PKV_MAMBA_ALIGN, 1);

AT(pkv_transfer_refusal, field, 4);
AT(pkv_transfer_pages, n_buffers, 24);
AT(pkv_transfer_chunks, form, 28);
AT(pkv_transfer_params, src, 24);
AT(pkv_transfer_params, n_ids, 80);
AT(pkv_transfer_params, heads_total, 112);

IS(PKV_TRANSFER_GATHER, 1);
IS(PKV_TRANSFER_SCATTER, 2);
IS(PKV_TRANSFER_COPY, 3);
IS(PKV_TRANSFER_SWAP, 4);
IS(PKV_TRANSFER_RESHARD, 5);

IS(PKV_CHUNK_2LTD, 1);
IS(PKV_CHUNK_L2TD, 2);
IS(PKV_CHUNK_2TD, 3);
IS(PKV_CHUNK_T2D, 4);
IS(PKV_CHUNK_MLA, 5);
IS(PKV_CHUNK_BLOCKS, 6);

IS(PKV_STORES_AUTO, 0);
IS(PKV_STORES_CACHED, 1);
IS(PKV_STORES_STREAMING, 2);

IS(PKV_TRANSFER_MALFORMED, 0);
IS(PKV_TRANSFER_RANGE, 1);
IS(PKV_TRANSFER_BOUNDS, 2);
IS(PKV_TRANSFER_OVERLAP, 3);
IS(PKV_TRANSFER_CONTENT, 4);

IS(PKV_HASH_SHA256_CBOR, 0);
IS(PKV_HASH_XXHASH_CBOR, 1);
IS(PKV_HASH_PKV_SHA256, 2);
IS(PKV_HASH_PKV_XXH3, 3);

IS(PKV_LAYOUT_AUTO, 0);
IS(PKV_LAYOUT_LBHNC, 1);
IS(PKV_LAYOUT_LBNHC, 2);
IS(PKV_LAYOUT_LHBNC, 3);
IS(PKV_LAYOUT_BLHNC, 4);
IS(PKV_LAYOUT_BLNHC, 5);
IS(PKV_LAYOUT_BHLNC, 6);

IS(PKV_REVISION_0_33, 0);
IS(PKV_REVISION_SEED, 1);

IS(PKV_DRAFT_NONE, 0);
IS(PKV_DRAFT_EAGLE, 1);
IS(PKV_DRAFT_MTP, 2);
IS(PKV_DRAFT_MTP_MULTI, 3);
IS(PKV_DRAFT_DFLASH, 4);
IS(PKV_DRAFT_MODEL, 5);
IS(PKV_DRAFT_NGRAM, 6);

IS(PKV_GROUP_DEFAULT, 0);
IS(PKV_GROUP_HISPARSE_SOURCE, 1);
IS(PKV_GROUP_HISPARSE_INDEXER, 2);

IS(PKV_EXACT, 0);
IS(PKV_DERIVED, 1);
IS(PKV_ASSUMED, 2);

IS(PKV_DOCUMENT_PLAN, 0);
IS(PKV_DOCUMENT_MERGE, 1);
IS(PKV_DOCUMENT_UNIFORM, 2);
IS(PKV_DOCUMENT_RESIZE, 3);
IS(PKV_DOCUMENT_VIEWS, 4);
IS(PKV_DOCUMENT_QUANT_MODE, 5);
IS(PKV_DOCUMENT_LAYOUT_OF, 6);
