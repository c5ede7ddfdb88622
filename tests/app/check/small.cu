/* evoflash check
entry = "small"
grid = 1
block = 32
arguments = [
  { name = "x", dtype = "f32", shape = [32], out = true },
  { name = "n", dtype = "i32", value = 32 },
]
*/
#include "ef.h"

extern "C" __global__ void small(float* x, int n) {
  BODY
}
EF_EXPORT_KERNEL(small)
