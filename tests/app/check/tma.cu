/* evoflash check
entry = "tma"
grid = 1
block = 32
smem = 256
arguments = [
  { name = "x", dtype = "f32", shape = [4, 16], box = [2, 8], fill = "arange" },
  { name = "y", dtype = "f32", shape = [16], out = true },
]
*/
#include "ef.h"

extern "C" __global__ void tma(EF_TMAP(x), float* y) {
  const ef::u32 tile = ef::smem_base(), bar = tile + 128;
  if (threadIdx.x == 0) {
    ef::mbar_init(bar, 1);
    ef::fence_mbar_init();
  }
  ef::syncthreads();
  if (threadIdx.x == 0) {
    ef::mbar_arrive_expect_tx(bar, 64);
    ef::tma_load(tile, &x, ef::at(8, 2), bar);
  }
  ef::mbar_wait(bar, 0);
  if (threadIdx.x < 16) ef::stg(y + threadIdx.x, ef::lds<float>(tile + threadIdx.x * 4));
}
EF_EXPORT_KERNEL(tma)
