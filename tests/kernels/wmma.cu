// WMMA on small integers: d = a b + 3 c and its relatives, through shared memory. Exact, equal on every machine.
// BUG=n plants one mistake.
#include "ef.h"

using ef::u32;

#ifndef BUG
#define BUG 0
#endif

constexpr u32 kPartBytes = 16 * 48 * 4;  // room for a tile with 48 elements between its rows
constexpr u32 kTiles = 2;

// Puts a dense 16x16 matrix into shared memory, `stride` elements from row to row.
template <class T>
EF_DEV void place(u32 address, const T* matrix, int stride) {
  for (int i = threadIdx.x; i < 256; i += 32)
    ef::sts(address + (i / 16 * stride + i % 16) * u32(sizeof(T)), ef::ldg(matrix + i));
}

// Two 16x16 results: a b^T * 3 + c from B stored by columns, and a b + 7 from B stored by rows.
template <class T>
EF_DEV void multiply(const T* a, const T* b, const float* c, float* out, int stride, int c_stride) {
  const u32 base = ef::smem_base();
  const u32 a_tile = base, b_tile = base + kPartBytes, c_tile = base + 2 * kPartBytes;
  place(a_tile, a, stride);
  place(b_tile, b, stride);
  place(c_tile, c, c_stride);
#if BUG != 1  // nobody waits for the other lanes
  ef::syncwarp();
#endif
  ef::wmma_a<T> left;
  ef::wmma_b_col<T> columns;
  ef::wmma_b_row<T> rows;
  ef::wmma_c first, second;
#if BUG == 2  // rows in between the fragment's alignment
  ef::wmma_load_a(left, a_tile + 8, stride);
#elif BUG == 3  // beyond the allocation
  ef::wmma_load_a(left, a_tile + 3 * kPartBytes, stride);
#elif BUG == 4  // a lane has an address of its own
  ef::wmma_load_a(left, a_tile + (threadIdx.x == 5 ? 32 : 0), stride);
#elif BUG == 5  // rows that nobody wrote
  ef::wmma_load_a(left, a_tile + 16 * stride * 2, stride);
#elif BUG == 6  // a stride that breaks the alignment of every second row
  ef::wmma_load_a(left, a_tile, stride + 4);
#else
  ef::wmma_load_a(left, a_tile, stride);
#endif
  ef::wmma_load_b_col(columns, b_tile, stride);
  ef::wmma_load_b_row(rows, b_tile, stride);
  ef::wmma_fill(first, 0.0f);
  ef::wmma_mma(first, left, columns);
  ef::wmma_scale(first, 3.0f);
  ef::wmma_load_c(second, c_tile, c_stride);
#pragma unroll
  for (int i = 0; i < 8; ++i) first.x[i] += second.x[i];  // element by element: both keep it in the same place
  ef::wmma_fill(second, 7.0f);
  ef::wmma_mma(second, left, rows);
#if BUG == 7  // as if the accumulator had mma's layout: what it adds to column 0 ends up anywhere
  if (threadIdx.x % 4 == 0) {
    second.x[0] += 1.0f;
    second.x[2] += 1.0f;
  }
#endif
#if BUG != 8  // c is still being read
  ef::syncwarp();
#endif
  ef::wmma_store_c(a_tile, first, c_stride);
  ef::wmma_store_c(c_tile, second, c_stride);
  ef::syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    ef::stg(out + i, ef::lds<float>(a_tile + (i / 16 * c_stride + i % 16) * 4));
    ef::stg(out + 256 + i, ef::lds<float>(c_tile + (i / 16 * c_stride + i % 16) * 4));
  }
}

// a, b, c: dense 16x16; out: two 16x16; strides: of a and b, then of c and the results.
extern "C" __global__ void __launch_bounds__(32)
wmma_f16(const ef::f16* a, const ef::f16* b, const float* c, const int* strides, float* out) {
  multiply(a, b, c, out, ef::ldg(strides), ef::ldg(strides + 1));
}
EF_EXPORT_KERNEL(wmma_f16)

extern "C" __global__ void __launch_bounds__(32)
wmma_bf16(const ef::bf16* a, const ef::bf16* b, const float* c, const int* strides, float* out) {
  multiply(a, b, c, out, ef::ldg(strides), ef::ldg(strides + 1));
}
EF_EXPORT_KERNEL(wmma_bf16)

// Copies 32 x 4, 8 and 16 bytes through L1 and shared memory; every third of each is left out and is zeros.
// Then stores 16 bytes a lane with the streaming store. in: 256 u32, out: 256 u32.
extern "C" __global__ void __launch_bounds__(32) narrow_copies(const u32* in, u32* out) {
  const int lane = threadIdx.x;
  const u32 base = ef::smem_base();
  const bool inside = lane % 3 != 0;
  ef::cp_async4_zfill(base + lane * 4, in + lane, inside);
  ef::cp_async8_zfill(base + 128 + lane * 8, in + 32 + lane * 2, inside);
  ef::cp_async16_zfill(base + 384 + lane * 16, in + 96 + lane * 4, inside);
  ef::cp_async_commit();
  ef::cp_async_wait<0>();
  ef::syncwarp();
  for (int i = lane; i < 128; i += 32) ef::stg(out + i, ef::lds<u32>(base + i * 4));
  ef::stg_cs((ef::u32x4*)(out + 128) + lane, ef::lds<ef::u32x4>(base + 384 + lane * 16));
}
EF_EXPORT_KERNEL(narrow_copies)
