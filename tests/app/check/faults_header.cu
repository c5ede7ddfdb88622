/* evoflash check
entry = "faults"
grid = 1
block = 64
smem = 1024
arguments = [
  { name = "in", dtype = "i32", shape = [4096], fill = "arange" },
  { name = "out", dtype = "i32", shape = [64], out = true },
]
*/
