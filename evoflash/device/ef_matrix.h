// 8x8 matrices between shared memory and a warp's registers, and mma.sync on them.
#pragma once
#include "ef_base.h"

namespace ef {

// Loads one 8x8 matrix of 16-bit elements; lanes 0-7 give the rows' addresses.
EF_DEV void ldmatrix_x1(u32 (&r)[1], u32 row EF_LINE) {
#if EF_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
#else
  efemu::load_matrices(r, 1, false, row, line);
#endif
}

// ldmatrix_x1 with the 8x8 matrix transposed.
EF_DEV void ldmatrix_x1_trans(u32 (&r)[1], u32 row EF_LINE) {
#if EF_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
#else
  efemu::load_matrices(r, 1, true, row, line);
#endif
}

// Loads two 8x8 matrices of 16-bit elements; lanes 0-15 give the rows' addresses.
EF_DEV void ldmatrix_x2(u32 (&r)[2], u32 row EF_LINE) {
#if EF_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
#else
  efemu::load_matrices(r, 2, false, row, line);
#endif
}

// ldmatrix_x2 with each 8x8 matrix transposed.
EF_DEV void ldmatrix_x2_trans(u32 (&r)[2], u32 row EF_LINE) {
#if EF_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
#else
  efemu::load_matrices(r, 2, true, row, line);
#endif
}

// Loads four 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i.
EF_DEV void ldmatrix_x4(u32 (&r)[4], u32 row EF_LINE) {
#if EF_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
#else
  efemu::load_matrices(r, 4, false, row, line);
#endif
}

// ldmatrix_x4 with each 8x8 matrix transposed.
EF_DEV void ldmatrix_x4_trans(u32 (&r)[4], u32 row EF_LINE) {
#if EF_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
#else
  efemu::load_matrices(r, 4, true, row, line);
#endif
}

// Stores one 8x8 matrix of 16-bit elements; lanes 0-7 give the rows' addresses.
EF_DEV void stmatrix_x1(u32 row, const u32 (&r)[1] EF_LINE) {
#if EF_GPU
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(r[0]) : "memory");
#else
  efemu::store_matrices(row, r, 1, false, line);
#endif
}

// stmatrix_x1 with each 8x8 matrix transposed.
EF_DEV void stmatrix_x1_trans(u32 row, const u32 (&r)[1] EF_LINE) {
#if EF_GPU
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row), "r"(r[0]) : "memory");
#else
  efemu::store_matrices(row, r, 1, true, line);
#endif
}

// Stores two 8x8 matrices of 16-bit elements; lanes 0-15 give the rows' addresses.
EF_DEV void stmatrix_x2(u32 row, const u32 (&r)[2] EF_LINE) {
#if EF_GPU
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" ::"r"(row), "r"(r[0]), "r"(r[1]) : "memory");
#else
  efemu::store_matrices(row, r, 2, false, line);
#endif
}

// stmatrix_x2 with each 8x8 matrix transposed.
EF_DEV void stmatrix_x2_trans(u32 row, const u32 (&r)[2] EF_LINE) {
#if EF_GPU
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::
               "r"(row), "r"(r[0]), "r"(r[1]) : "memory");
#else
  efemu::store_matrices(row, r, 2, true, line);
#endif
}

// Stores four 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i.
EF_DEV void stmatrix_x4(u32 row, const u32 (&r)[4] EF_LINE) {
#if EF_GPU
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::
               "r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
#else
  efemu::store_matrices(row, r, 4, false, line);
#endif
}

// stmatrix_x4 with each 8x8 matrix transposed.
EF_DEV void stmatrix_x4_trans(u32 row, const u32 (&r)[4] EF_LINE) {
#if EF_GPU
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::
               "r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
#else
  efemu::store_matrices(row, r, 4, true, line);
#endif
}

// d += a b for a 16x16 A and a 16x8 B of f16, accumulated in float.
EF_DEV void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16 EF_LINE) {
#if EF_GPU
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const u32 b[2] = {b0, b1};
  efemu::multiply_tiles(d, a, b, false, line);
#endif
}

// d += a b for a 16x16 A and a 16x8 B of bf16, accumulated in float.
EF_DEV void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16 EF_LINE) {
#if EF_GPU
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const u32 b[2] = {b0, b1};
  efemu::multiply_tiles(d, a, b, true, line);
#endif
}

// d += a b for a 16x16 A and a 16x8 B of f16, accumulated in f16: d[h] is the pair that float's d[2h], d[2h+1] are.
EF_DEV void mma_m16n8k16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1, f16 EF_LINE) {
#if EF_GPU
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
               "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const u32 b[2] = {b0, b1};
  float product[4] = {};
  efemu::multiply_tiles(product, a, b, false, line);
  for (int h = 0; h < 2; ++h) {
    const float lo = efemu::f16_to_float(static_cast<u16>(d[h])) + product[2 * h];
    const float hi = efemu::f16_to_float(static_cast<u16>(d[h] >> 16)) + product[2 * h + 1];
    d[h] = efemu::float_to_f16(lo) | static_cast<u32>(efemu::float_to_f16(hi)) << 16;
  }
#endif
}

}  // namespace ef
