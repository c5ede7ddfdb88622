// nvcuda::wmma of plain CUDA: fragments, loads, stores and products on tiles of 16-bit numbers. Included by cuda_names.h.
//
// Which lane holds which element is nobody's business (CUDA programming guide, warp matrix functions): here it is
// drawn by the row, so that a kernel that counts on one order is wrong. `half` operands, float or half sums.
#pragma once

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

template <class T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<precision::tf32> {
  using type = float;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  using element_type = typename StoredAs<T>::type;
  using storage_element_type = element_type;
  static constexpr bool is_a = std::is_same<Use, matrix_a>::value, is_b = std::is_same<Use, matrix_b>::value;
  static constexpr int rows = is_b ? K : M, columns = is_a ? K : N;
  static constexpr int num_elements = rows * columns / 32, num_storage_elements = num_elements;
  element_type x[num_elements];
};

// Element i of a lane, as its number in the tile by rows.
EFEMU_HERE int place_of(int lane, int i) { return i * 32 + (lane * 13 + i * 7) % 32; }

template <class Use, int M, int N, int K, class T, class L, class V>
inline void fill_fragment(fragment<Use, M, N, K, T, L>& f, V value) {
  for (auto& each : f.x) each = static_cast<typename StoredAs<T>::type>(value);
}

template <class F, class P>
EFEMU_OWN inline void move_tile(F& f, P* memory, unsigned stride, bool by_columns, bool stores, int line) {
  const int lane = static_cast<int>(::efemu::lane_number());
  ::efemu::meet(stores ? "store_matrix_sync" : "load_matrix_sync", ~0u, nullptr, [](void* const*, unsigned) {}, line);
  for (int i = 0; i < F::num_elements; ++i) {
    const int at = place_of(lane, i), row = at / F::columns, column = at % F::columns;
    P* const place = memory + (by_columns ? static_cast<size_t>(column) * stride + row : static_cast<size_t>(row) * stride + column);
    ::efemu::note_access(place, sizeof(P), stores, line);
    if constexpr (std::is_const<P>::value)
      f.x[i] = *place;
    else
      *place = f.x[i];
  }
}

template <class Use, int M, int N, int K, class T, class L, class P>
EFEMU_OWN inline void load_matrix_sync(fragment<Use, M, N, K, T, L>& f, const P* memory, unsigned stride, EFEMU_AT) {
  static_assert(!std::is_same<Use, accumulator>::value, "the layout of an accumulator has to be given");
  move_tile(f, memory, stride, std::is_same<L, col_major>::value, false, line);
}
template <int M, int N, int K, class T, class P>
EFEMU_OWN inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* memory, unsigned stride, layout_t layout, EFEMU_AT) {
  move_tile(f, memory, stride, layout == mem_col_major, false, line);
}
template <int M, int N, int K, class T, class P>
EFEMU_OWN inline void store_matrix_sync(P* memory, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout, EFEMU_AT) {
  move_tile(const_cast<fragment<accumulator, M, N, K, T>&>(f), memory, stride, layout == mem_col_major, true, line);
}

template <class D, class A, class B, class C>
struct Product {
  D* d;
  const A* a;
  const B* b;
  const C* c;
};

template <int M, int N, int K, class D, class A, class B, class C>
EFEMU_OWN inline void multiply_lanes(void* const* given, unsigned lanes) {
  using Given = Product<D, A, B, C>;
  static float a[M][K], b[K][N], d[M][N];
  for (int lane = 0; lane < 32; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    const Given& mine = *static_cast<Given*>(given[lane]);
    for (int i = 0; i < A::num_elements; ++i) a[place_of(lane, i) / K][place_of(lane, i) % K] = static_cast<float>(mine.a->x[i]);
    for (int i = 0; i < B::num_elements; ++i) b[place_of(lane, i) / N][place_of(lane, i) % N] = static_cast<float>(mine.b->x[i]);
    for (int i = 0; i < C::num_elements; ++i) d[place_of(lane, i) / N][place_of(lane, i) % N] = static_cast<float>(mine.c->x[i]);
  }
  for (int row = 0; row < M; ++row)
    for (int k = 0; k < K; ++k)
      for (int column = 0; column < N; ++column) d[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      for (int i = 0; i < D::num_elements; ++i)
        static_cast<Given*>(given[lane])->d->x[i] = static_cast<typename D::element_type>(d[place_of(lane, i) / N][place_of(lane, i) % N]);
}

template <int M, int N, int K, class TD, class TA, class LA, class TB, class LB, class TC>
EFEMU_OWN inline void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                               const fragment<matrix_b, M, N, K, TB, LB>& b, const fragment<accumulator, M, N, K, TC>& c,
                               bool = false, EFEMU_AT) {
  using D = fragment<accumulator, M, N, K, TD>;
  using A = fragment<matrix_a, M, N, K, TA, LA>;
  using B = fragment<matrix_b, M, N, K, TB, LB>;
  using C = fragment<accumulator, M, N, K, TC>;
  Product<D, A, B, C> mine{&d, &a, &b, &c};
  ::efemu::meet("mma_sync", ~0u, &mine, multiply_lanes<M, N, K, D, A, B, C>, line);
}

EFEMU_HERE float __float_to_tf32(float x) { return ::efemu::float_of((::efemu::bits_of(x) + 0xfff + (::efemu::bits_of(x) >> 13 & 1)) & ~0x1fffu); }

}  // namespace wmma
}  // namespace nvcuda
