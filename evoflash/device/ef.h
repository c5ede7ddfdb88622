// The primitive layer that every kernel template speaks; the only file a kernel includes.
//
// On the GPU (NVRTC, nvcc) each primitive is a PTX instruction; on the host (g++) it is a call into
// the CPU emulator, which checks it. Both sides declare the same names with the same meaning.
#pragma once
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include "ef_ptx.h"
#else
#include "ef_host.h"
#endif
