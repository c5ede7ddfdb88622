// The primitives on the GPU: one PTX instruction or a few each, no includes, sm_80 and later.
//
// Shared memory is named by 32-bit addresses (bytes, from smem_base()), never by pointers, so that the
// same text can be checked by the emulator. Layout rule, relied on by `evoflash export`, which copies
// out just the functions a kernel uses: one comment line, then one top-level function, no macros but
// EF_DEV and EF_EXPORT_KERNEL.
#pragma once

#define EF_DEV static __device__ __forceinline__
#define EF_EXPORT_KERNEL(name)

namespace ef {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// 16-bit floats as stored in memory; arithmetic happens in float or in mma.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

// Register pairs and quads for 8- and 16-byte accesses.
struct __align__(8) u32x2 {
  u32 x, y;
};
struct __align__(16) u32x4 {
  u32 x, y, z, w;
};

// A 16x16 WMMA operand A. Which lane and register hold which element is unknown and may differ between GPUs.
template <class T>
struct wmma_a {
  u32 x[8];  // bf16 uses the first four
};
// A 16x16 WMMA operand B that was loaded from rows.
template <class T>
struct wmma_b_row {
  u32 x[8];
};
// A 16x16 WMMA operand B that was loaded from columns.
template <class T>
struct wmma_b_col {
  u32 x[8];
};
// A 16x16 WMMA accumulator.
struct wmma_c {
  float x[8];
};

// The first byte of dynamic shared memory, 1024-byte aligned.
EF_DEV u32 smem_base() {
  extern __shared__ __align__(1024) unsigned char dynamic_smem[];
  return static_cast<u32>(__cvta_generic_to_shared(dynamic_smem));
}

// The first byte of BYTES bytes of static shared memory, at most 48 KB, 1024-byte aligned; one size a kernel.
template <int BYTES>
EF_DEV u32 smem_static() {
  __shared__ __align__(1024) unsigned char static_smem[BYTES];
  return static_cast<u32>(__cvta_generic_to_shared(static_smem));
}

// Loads 2, 4, 8 or 16 bytes from shared memory, aligned to their size.
template <class T>
EF_DEV T lds(u32 address) {
  return *static_cast<const T*>(__cvta_shared_to_generic(address));
}

// Stores 2, 4, 8 or 16 bytes to shared memory, aligned to their size.
template <class T>
EF_DEV void sts(u32 address, T value) {
  *static_cast<T*>(__cvta_shared_to_generic(address)) = value;
}

// Loads 2, 4, 8 or 16 bytes from global memory, aligned to their size.
template <class T>
EF_DEV T ldg(const T* source) {
  return *source;
}

// Stores 2, 4, 8 or 16 bytes to global memory, aligned to their size.
template <class T>
EF_DEV void stg(T* target, T value) {
  *target = value;
}

// Stores 16 bytes to global memory, marked as not to be read again soon.
EF_DEV void stg_cs(u32x4* target, u32x4 value) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(target), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
}

// Starts copying 16 bytes from global to shared memory, past L1.
EF_DEV void cp_async16(u32 target, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}

// The same where `inside`; elsewhere writes 16 zero bytes and does not touch `source`.
EF_DEV void cp_async16_zfill(u32 target, const void* source, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// cp_async16_zfill with a hint that the 64, 128 or 256 bytes around the source should come to L2 together.
template <int kL2Bytes>
EF_DEV void cp_async16_zfill_l2(u32 target, const void* source, bool inside) {
  const int bytes = inside ? 16 : 0;
  if constexpr (kL2Bytes == 64)
    asm volatile("cp.async.cg.shared.global.L2::64B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
  else if constexpr (kL2Bytes == 128)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// cp_async16_zfill that keeps the line in L1 as well: other blocks of the SM may find it there.
EF_DEV void cp_async16_zfill_l1(u32 target, const void* source, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// cp_async16_zfill for 4 bytes, through L1.
EF_DEV void cp_async4_zfill(u32 target, const void* source, bool inside) {
  const int bytes = inside ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// cp_async16_zfill for 8 bytes, through L1.
EF_DEV void cp_async8_zfill(u32 target, const void* source, bool inside) {
  const int bytes = inside ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// Closes this thread's group of copies; an empty group is legal.
EF_DEV void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most N of this thread's newest groups are still under way.
template <int N>
EF_DEV void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Loads two 8x8 matrices of 16-bit elements; lanes 0-15 give the rows' addresses.
EF_DEV void ldmatrix_x2(u32 (&r)[2], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}

// ldmatrix_x2 with each 8x8 matrix transposed.
EF_DEV void ldmatrix_x2_trans(u32 (&r)[2], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}

// Loads four 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i.
EF_DEV void ldmatrix_x4(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// ldmatrix_x4 with each 8x8 matrix transposed.
EF_DEV void ldmatrix_x4_trans(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// d += a b for a 16x16 A and a 16x8 B of f16, accumulated in float.
EF_DEV void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += a b for a 16x16 A and a 16x8 B of bf16, accumulated in float.
EF_DEV void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads a 16x16 tile of f16 stored by rows, `stride` elements apart, rows at multiples of 32 bytes, as A.
EF_DEV void wmma_load_a(wmma_a<f16>& a, u32 address, int stride) {
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3]),
                 "=r"(a.x[4]), "=r"(a.x[5]), "=r"(a.x[6]), "=r"(a.x[7])
               : "r"(address), "r"(stride)
               : "memory");
}

// Loads a 16x16 tile of bf16 stored by rows, `stride` elements apart, rows at multiples of 16 bytes, as A.
EF_DEV void wmma_load_a(wmma_a<bf16>& a, u32 address, int stride) {
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3])
               : "r"(address), "r"(stride)
               : "memory");
}

// Loads a 16x16 tile of f16 stored by rows, `stride` elements apart, rows at multiples of 32 bytes, as B.
EF_DEV void wmma_load_b_row(wmma_b_row<f16>& b, u32 address, int stride) {
  asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3]),
                 "=r"(b.x[4]), "=r"(b.x[5]), "=r"(b.x[6]), "=r"(b.x[7])
               : "r"(address), "r"(stride)
               : "memory");
}

// Loads a 16x16 tile of bf16 stored by rows, `stride` elements apart, rows at multiples of 16 bytes, as B.
EF_DEV void wmma_load_b_row(wmma_b_row<bf16>& b, u32 address, int stride) {
  asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3])
               : "r"(address), "r"(stride)
               : "memory");
}

// Loads a 16x16 tile of f16 stored by columns, `stride` elements apart, columns at multiples of 32 bytes, as B.
EF_DEV void wmma_load_b_col(wmma_b_col<f16>& b, u32 address, int stride) {
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3]),
                 "=r"(b.x[4]), "=r"(b.x[5]), "=r"(b.x[6]), "=r"(b.x[7])
               : "r"(address), "r"(stride)
               : "memory");
}

// Loads a 16x16 tile of bf16 stored by columns, `stride` elements apart, columns at multiples of 16 bytes, as B.
EF_DEV void wmma_load_b_col(wmma_b_col<bf16>& b, u32 address, int stride) {
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3])
               : "r"(address), "r"(stride)
               : "memory");
}

// Loads a 16x16 tile of floats stored by rows, `stride` elements apart, rows at multiples of 32 bytes.
EF_DEV void wmma_load_c(wmma_c& c, u32 address, int stride) {
  asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=f"(c.x[0]), "=f"(c.x[1]), "=f"(c.x[2]), "=f"(c.x[3]),
                 "=f"(c.x[4]), "=f"(c.x[5]), "=f"(c.x[6]), "=f"(c.x[7])
               : "r"(address), "r"(stride)
               : "memory");
}

// Stores a 16x16 tile of floats by rows, `stride` elements apart, rows at multiples of 32 bytes.
EF_DEV void wmma_store_c(u32 address, const wmma_c& c, int stride) {
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%8], {%0,%1,%2,%3,%4,%5,%6,%7}, %9;"
               :
               : "f"(c.x[0]), "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]),
                 "f"(c.x[4]), "f"(c.x[5]), "f"(c.x[6]), "f"(c.x[7]),
                 "r"(address), "r"(stride)
               : "memory");
}

// Makes every element of the accumulator `value`.
EF_DEV void wmma_fill(wmma_c& c, float value) {
#pragma unroll
  for (int i = 0; i < 8; ++i) c.x[i] = value;
}

// Multiplies every element of the accumulator by `factor`, the same in all lanes.
EF_DEV void wmma_scale(wmma_c& c, float factor) {
#pragma unroll
  for (int i = 0; i < 8; ++i) c.x[i] *= factor;
}

// c += a b for 16x16 tiles of f16, B loaded from rows, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<f16>& a, const wmma_b_row<f16>& b) {
  asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(a.x[4]), "r"(a.x[5]), "r"(a.x[6]), "r"(a.x[7]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]),
                 "r"(b.x[4]), "r"(b.x[5]), "r"(b.x[6]), "r"(b.x[7]));
}

// c += a b for 16x16 tiles of bf16, B loaded from rows, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<bf16>& a, const wmma_b_row<bf16>& b) {
  asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]));
}

// c += a b for 16x16 tiles of f16, B loaded from columns, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<f16>& a, const wmma_b_col<f16>& b) {
  asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(a.x[4]), "r"(a.x[5]), "r"(a.x[6]), "r"(a.x[7]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]),
                 "r"(b.x[4]), "r"(b.x[5]), "r"(b.x[6]), "r"(b.x[7]));
}

// c += a b for 16x16 tiles of bf16, B loaded from columns, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<bf16>& a, const wmma_b_col<bf16>& b) {
  asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]));
}

// d += a b for a 16x16 A and a 16x8 B of f16, accumulated in f16: d[h] is the pair that float's d[2h], d[2h+1] are.
EF_DEV void mma_m16n8k16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1, f16) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
               "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The value of the lane whose number differs by `lane_mask` (xor); all 32 lanes take part.
EF_DEV float shfl_xor(float value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffu, value, lane_mask);
}

// The value of lane `lane`; all 32 lanes take part.
EF_DEV int shfl_idx(int value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// The value of lane `lane`; all 32 lanes take part.
EF_DEV u32 shfl_idx(u32 value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// The value of lane `lane`; all 32 lanes take part.
EF_DEV float shfl_idx(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// Whether the condition holds in any lane of the warp; all 32 lanes take part.
EF_DEV bool any_sync(bool condition) {
  return __any_sync(0xffffffffu, condition);
}

// Whether the condition holds in every lane of the warp; all 32 lanes take part.
EF_DEV bool all_sync(bool condition) {
  return __all_sync(0xffffffffu, condition);
}

// Waits for the other lanes of the warp and makes their memory accesses visible.
EF_DEV void syncwarp() {
  __syncwarp();
}

// Waits for the other threads of the block and makes their memory accesses visible.
EF_DEV void syncthreads() {
  __syncthreads();
}

// syncthreads, and whether the condition holds in any thread of the block; all threads take part.
EF_DEV bool syncthreads_or(bool condition) {
  return __syncthreads_or(condition) != 0;
}

// Waits at named barrier `id` (1 to 15; 0 is syncthreads's) until `threads` threads have come, warps as wholes.
EF_DEV void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts as having come to named barrier `id` without waiting there.
EF_DEV void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// 2^x, approximate: error below 2^-22, subnormals become zero.
EF_DEV float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2 x, approximate: error below 2^-22, subnormals count as zero.
EF_DEV float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x, approximate: error below 1 ulp, subnormals become zero.
EF_DEV float rcp(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The larger of the two; a NaN loses against a number.
EF_DEV float fmax(float a, float b) {
  return fmaxf(a, b);
}

// a * b + c, rounded once.
EF_DEV float fma(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}

// a * b, rounded by itself: never fused into a following sum.
EF_DEV float mul(float a, float b) {
  return __fmul_rn(a, b);
}

// a - b, rounded by itself: never fused with a product before it.
EF_DEV float sub(float a, float b) {
  return __fsub_rn(a, b);
}

// Minus infinity.
EF_DEV float neg_inf() {
  return __int_as_float(0xff800000);
}

// The float with this f16's value.
EF_DEV float to_f32(f16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}

// The float with this bf16's value.
EF_DEV float to_f32(bf16 value) {
  return __uint_as_float(static_cast<u32>(value.bits) << 16);
}

// The nearest f16, ties to even; too large becomes infinity.
EF_DEV f16 from_f32(float value, f16) {
  f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

// The nearest bf16, ties to even; too large becomes infinity.
EF_DEV bf16 from_f32(float value, bf16) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

// Two f16 in one register, `lo` in the low half: the element at the lower address.
EF_DEV u32 pack2(float lo, float hi, f16) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// Two bf16 in one register, `lo` in the low half: the element at the lower address.
EF_DEV u32 pack2(float lo, float hi, bf16) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// The two f16 of a register as floats.
EF_DEV void unpack2(float& lo, float& hi, u32 packed, f16) {
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(lo), "=f"(hi) : "r"(packed));
}

// The two bf16 of a register as floats.
EF_DEV void unpack2(float& lo, float& hi, u32 packed, bf16) {
  lo = __uint_as_float(packed << 16);
  hi = __uint_as_float(packed & 0xffff0000u);
}

}  // namespace ef
