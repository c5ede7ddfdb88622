#include "ef.h"
EF_DEV void fetch(int at, const float* x) {
  ef::cp_async16(ef::smem_base() + at + threadIdx.x * 16, x + threadIdx.x * 4);
}
EF_DEV float early(int at) {
  return ef::lds<float>(ef::smem_base() + at + threadIdx.x * 16);
}
extern "C" __global__ void k(const float* x, float* y) {
  fetch(0, x);
  ef::cp_async_commit();
  fetch(512, x);
  ef::cp_async_commit();
  ef::cp_async_wait<1>();
  float sum = early(0);
  sum += early(512);
  ef::cp_async_wait<0>();
  ef::stg(y + threadIdx.x, sum);
}
EF_EXPORT_KERNEL(k)
