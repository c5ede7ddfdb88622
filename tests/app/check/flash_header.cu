/* evoflash check
entry = "flash"
grid = [3, 1]
block = 128
smem = 40960
arguments = [
  { name = "Q", dtype = "f16", shape = [192, 64] },
  { name = "K", dtype = "f16", shape = [192, 64] },
  { name = "V", dtype = "f16", shape = [192, 64] },
  { name = "O", dtype = "f16", shape = [192, 64], out = true },
  { name = "length", dtype = "i32", value = 192 },
  { name = "causal", dtype = "i32", value = 0 },
  { name = "scale_log2", dtype = "f32", value = 0.18 },
]
*/
