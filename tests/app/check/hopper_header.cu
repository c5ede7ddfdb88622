/* evoflash check
entry = "hopper"
grid = ["ceil_div(seq_q, 128)", "heads", "batch"]
block = 384
smem = SMEM
[attention]
rows = 128
problem = "b=1,h=1,s=512,d=64"
maps = [
  { map = "Q", box = [1, 1, 64, 64], swizzle = 128 },
  { map = "K", box = [1, 1, 64, 64], swizzle = 128 },
  { map = "V", box = [1, 1, 64, 64], swizzle = 128 },
  { map = "O", box = [1, 1, 64, 64], swizzle = 128 },
]
*/
