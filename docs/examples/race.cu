/* evoflash check
entry = "turn_around"
grid  = 4
block = 128
smem  = 512
arguments = [
  { name = "x", dtype = "f32", shape = [4, 128], fill = "random" },
  { name = "y", dtype = "f32", shape = [4, 128], out = true },
]
*/
// Turns rows of 128 numbers around by way of shared memory. A barrier is missing between the two lines that
// use it, so a thread may read what its partner has not written yet. docs/teaching.md has it found.
#include "ef.h"

extern "C" __global__ void __launch_bounds__(128) turn_around(const float* x, float* y) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  ef::sts(ef::smem_base() + threadIdx.x * 4, ef::ldg(x + i));
  ef::stg(y + i, ef::lds<float>(ef::smem_base() + (127 - threadIdx.x) * 4));
}
EF_EXPORT_KERNEL(turn_around)
