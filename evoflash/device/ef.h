// The primitive layer that every kernel template speaks; the only file a kernel includes.
//
// On the GPU (NVRTC, nvcc) each primitive is a PTX instruction or a few; on the host (g++) it is a call into the
// CPU emulator, which checks it. Both stand in one function, so they share name, meaning and argument checks.
#pragma once
#include "ef_base.h"
#include "ef_math.h"
#include "ef_shared.h"
#include "ef_global.h"
#include "ef_weights.h"
#include "ef_copy.h"
#include "ef_matrix.h"
#include "ef_wmma.h"
#include "ef_warp.h"
#include "ef_barrier.h"
#include "ef_mbarrier.h"
#include "ef_atomic.h"
// Parsing is paid for by every kernel. nvcc's host pass has no architecture, but names the same functions.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include "ef_cluster.h"
#include "ef_bulk.h"
#include "ef_tma.h"
#endif
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "ef_wgmma.h"
#endif
#undef EF_LINE
#undef EF_ONLY_LINE
