// 16x16 WMMA tiles, whose layout in registers is unknown and may differ between GPUs.
#pragma once
#include "ef_base.h"

namespace ef {

// A 16x16 WMMA operand A. Which lane and register hold which element is unknown; the emulator draws it for each launch.
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

// Loads a 16x16 tile of f16 stored by rows, `stride` elements apart, rows at multiples of 32 bytes, as A.
EF_DEV void wmma_load_a(wmma_a<f16>& a, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3]),
                 "=r"(a.x[4]), "=r"(a.x[5]), "=r"(a.x[6]), "=r"(a.x[7])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_operand(a.x, false, false, address, stride, line);
#endif
}

// Loads a 16x16 tile of bf16 stored by rows, `stride` elements apart, rows at multiples of 16 bytes, as A.
EF_DEV void wmma_load_a(wmma_a<bf16>& a, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_operand(a.x, true, false, address, stride, line);
#endif
}

// Loads a 16x16 tile of f16 stored by rows, `stride` elements apart, rows at multiples of 32 bytes, as B.
EF_DEV void wmma_load_b_row(wmma_b_row<f16>& b, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3]),
                 "=r"(b.x[4]), "=r"(b.x[5]), "=r"(b.x[6]), "=r"(b.x[7])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_operand(b.x, false, false, address, stride, line);
#endif
}

// Loads a 16x16 tile of bf16 stored by rows, `stride` elements apart, rows at multiples of 16 bytes, as B.
EF_DEV void wmma_load_b_row(wmma_b_row<bf16>& b, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_operand(b.x, true, false, address, stride, line);
#endif
}

// Loads a 16x16 tile of f16 stored by columns, `stride` elements apart, columns at multiples of 32 bytes, as B.
EF_DEV void wmma_load_b_col(wmma_b_col<f16>& b, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3]),
                 "=r"(b.x[4]), "=r"(b.x[5]), "=r"(b.x[6]), "=r"(b.x[7])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_operand(b.x, false, true, address, stride, line);
#endif
}

// Loads a 16x16 tile of bf16 stored by columns, `stride` elements apart, columns at multiples of 16 bytes, as B.
EF_DEV void wmma_load_b_col(wmma_b_col<bf16>& b, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_operand(b.x, true, true, address, stride, line);
#endif
}

// Loads a 16x16 tile of floats stored by rows, `stride` elements apart, rows at multiples of 32 bytes.
EF_DEV void wmma_load_c(wmma_c& c, u32 address, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=f"(c.x[0]), "=f"(c.x[1]), "=f"(c.x[2]), "=f"(c.x[3]),
                 "=f"(c.x[4]), "=f"(c.x[5]), "=f"(c.x[6]), "=f"(c.x[7])
               : "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_load_accumulator(c.x, address, stride, line);
#endif
}

// Stores a 16x16 tile of floats by rows, `stride` elements apart, rows at multiples of 32 bytes.
EF_DEV void wmma_store_c(u32 address, const wmma_c& c, int stride EF_LINE) {
#if EF_GPU
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%8], {%0,%1,%2,%3,%4,%5,%6,%7}, %9;"
               :
               : "f"(c.x[0]), "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]),
                 "f"(c.x[4]), "f"(c.x[5]), "f"(c.x[6]), "f"(c.x[7]),
                 "r"(address), "r"(stride)
               : "memory");
#else
  efemu::wmma_store_accumulator(c.x, address, stride, line);
#endif
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
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<f16>& a, const wmma_b_row<f16>& b EF_LINE) {
#if EF_GPU
  asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, "
               "{%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(a.x[4]), "r"(a.x[5]), "r"(a.x[6]), "r"(a.x[7]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]),
                 "r"(b.x[4]), "r"(b.x[5]), "r"(b.x[6]), "r"(b.x[7]));
#else
  efemu::wmma_multiply(c.x, a.x, b.x, false, line);
#endif
}

// c += a b for 16x16 tiles of bf16, B loaded from rows, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<bf16>& a, const wmma_b_row<bf16>& b EF_LINE) {
#if EF_GPU
  asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]));
#else
  efemu::wmma_multiply(c.x, a.x, b.x, true, line);
#endif
}

// c += a b for 16x16 tiles of f16, B loaded from columns, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<f16>& a, const wmma_b_col<f16>& b EF_LINE) {
#if EF_GPU
  asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, "
               "{%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(a.x[4]), "r"(a.x[5]), "r"(a.x[6]), "r"(a.x[7]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]),
                 "r"(b.x[4]), "r"(b.x[5]), "r"(b.x[6]), "r"(b.x[7]));
#else
  efemu::wmma_multiply(c.x, a.x, b.x, false, line);
#endif
}

// c += a b for 16x16 tiles of bf16, B loaded from columns, accumulated in float.
EF_DEV void wmma_mma(wmma_c& c, const wmma_a<bf16>& a, const wmma_b_col<bf16>& b EF_LINE) {
#if EF_GPU
  asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3,%4,%5,%6,%7};"
               : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3]),
                 "+f"(c.x[4]), "+f"(c.x[5]), "+f"(c.x[6]), "+f"(c.x[7])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]),
                 "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]));
#else
  efemu::wmma_multiply(c.x, a.x, b.x, true, line);
#endif
}

}  // namespace ef
