// flash_mma: Forward attention on mma.sync tiles fed by cp.async; one warp owns rows_per_warp query rows.
// genome 53e8064f86be1af3 (family version 2), for d=128,dtype=bf16,causal,gqa=4,sm_90a, by evoflash 0.1.0
// block_n=64 copy_hint=none ctas_per_sm=1 early_qk=off epilogue=staged exp_form=ffma frag_prefetch=off
// k_stages=2 kv_split_warps=1 kv_splits=1 kv_unroll=1 layout=pad8 lazy_tau=8 ldsm=x4 mask=compare
// max_tree=1 pack_gqa=off q_home=smem rescale=lazy rows_per_warp=16 schedule=grid store=plain sum_tree=1
// tile_order=reversed tile_skip=off v_stages=1 waits=separate warps=4
#include "ef.h"

using ef::u32;
using element = ef::bf16;

constexpr int kHeadDim = 128;
constexpr int kGqaRatio = 4;       // query heads per key/value head
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRowsPerWarp = 16;
constexpr int kTilesM = kRowsPerWarp / 16;  // m16 tiles of one warp
constexpr int BLOCK_M = kWarps * kRowsPerWarp;
constexpr int BLOCK_N = 64;
constexpr int kStagesK = 2;
constexpr int kStagesV = 1;
constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks in a row
constexpr u32 kRowBytes = 2 * (kHeadDim + 8);  // 16 bytes of padding: eight rows start in eight bank groups
constexpr u32 kTileBytes = BLOCK_N * kRowBytes;
constexpr float kTau = 8.0f;  // rescale only when a row maximum grows by more than 2^tau
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Shared address of 16-byte chunk `chunk` of row `row` in a tile.
EF_DEV u32 chunk_at(u32 tile, int row, int chunk) {
  return tile + row * kRowBytes + chunk * 16;
}

// Starts the copy of rows [first, first + ROWS) of a matrix into a tile; rows from `rows` on become zeros, and what their
// addresses name is not read. An address is one multiply-add: rows are less than 2^31 bytes apart.
template <int ROWS>
EF_DEV void copy_tile(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  const char* const start = (const char*)matrix;
  const int row_bytes = int(row_stride) * 2;
  constexpr int kRowsPerPass = kThreads / kChunks;
  const int chunk = threadIdx.x % kChunks;
#pragma unroll
  for (int pass = 0; pass < ROWS; pass += kRowsPerPass) {
    const int row = pass + threadIdx.x / kChunks;
    if (ROWS % kRowsPerPass == 0 || row < ROWS) {
      const void* const source = start + (long long)(first + row) * row_bytes + chunk * 16;
      ef::cp_async16_zfill(chunk_at(tile, row, chunk), source, first + row < rows);
    }
  }
}

// Maximum and sum over the four lanes that share a row of an accumulator.
EF_DEV float quad_max(float x) {
  x = ef::fmax(x, ef::shfl_xor(x, 1));
  return ef::fmax(x, ef::shfl_xor(x, 2));
}
EF_DEV float quad_sum(float x) {
  x += ef::shfl_xor(x, 1);
  return x + ef::shfl_xor(x, 2);
}

// Fragment of K for keys n * 8 to n * 8 + 15 and columns k * 16 to k * 16 + 15.
EF_DEV void load_keys(u32 (&b)[4], u32 k_tile, int n, int k, int lane) {
  ef::ldmatrix_x4(b, chunk_at(k_tile, n * 8 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
}

// Fragment of V, transposed on the way in, for keys k * 16 to k * 16 + 15 and columns n * 8 to n * 8 + 15.
EF_DEV void load_values(u32 (&b)[4], u32 v_tile, int n, int k, int lane) {
  ef::ldmatrix_x4_trans(b, chunk_at(v_tile, k * 16 + lane % 16, n + lane / 16));
}

// S += Q K^T for the warp's rows and one tile of keys.
EF_DEV void multiply_keys(float (&s)[kTilesM][BLOCK_N / 8][4], u32 q_tile, int warp_row,
                          u32 k_tile, int lane) {
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    u32 a[kTilesM][4];
#pragma unroll
    for (int t = 0; t < kTilesM; ++t)
      ef::ldmatrix_x4(a[t], chunk_at(q_tile, warp_row + t * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (int n = 0; n < BLOCK_N / 8; n += 2) {
      u32 b[4];
      load_keys(b, k_tile, n, k, lane);
#pragma unroll
      for (int t = 0; t < kTilesM; ++t) {
        ef::mma_m16n8k16(s[t][n], a[t], b[0], b[1], element());
        ef::mma_m16n8k16(s[t][n + 1], a[t], b[2], b[3], element());
      }
    }
  }
}

// O += P V for one tile of values; two n8 accumulators of S are one k16 A fragment of P.
EF_DEV void multiply_values(float (&o)[kTilesM][kHeadDim / 8][4], const float (&s)[kTilesM][BLOCK_N / 8][4], u32 v_tile,
                            int lane) {
#pragma unroll
  for (int k = 0; k < BLOCK_N / 16; ++k) {
    u32 p[kTilesM][4];
#pragma unroll
    for (int t = 0; t < kTilesM; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[t][i] = ef::pack2(s[t][2 * k + i / 2][i % 2 * 2], s[t][2 * k + i / 2][i % 2 * 2 + 1], element());
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      u32 b[4];
      load_values(b, v_tile, n, k, lane);
#pragma unroll
      for (int t = 0; t < kTilesM; ++t) {
        ef::mma_m16n8k16(o[t][n], p[t], b[0], b[1], element());
        ef::mma_m16n8k16(o[t][n + 1], p[t], b[2], b[3], element());
      }
    }
  }
}

// Q, O: (batch, heads, seq_q, head_dim); K, V: (batch, kv_heads, seq_kv, head_dim); strides in elements.
// LSE: dense (batch, heads, seq_q), natural logarithm, may be null.
// Causal, bottom-right aligned: query i sees keys j <= i + seq_kv - seq_q.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_mma(const element* Q, const element* K, const element* V, element* O, float* LSE,
          int seq_q, int seq_kv, int heads, int kv_heads,
          long long q_batch, long long q_head, long long q_row,
          long long k_batch, long long k_head, long long k_row,
          long long v_batch, long long v_head, long long v_row,
          long long o_batch, long long o_head, long long o_row, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp * kRowsPerWarp;  // within the block
  const float scale_log2 = scale * kLog2e;

  const u32 q_tile = ef::smem_base();
  const u32 k_ring = q_tile + BLOCK_M * kRowBytes;
  const u32 v_ring = k_ring + kStagesK * kTileBytes;

  const int batch = blockIdx.z;
  // The last query block sees the most keys: it is launched first, so that the short ones fill the end.
  const int head = blockIdx.y, block = blockIdx.x, blocks = gridDim.x;
  const int block_row = (blocks - 1 - block) * BLOCK_M;
  const int kv_head = head / kGqaRatio;
  const element* const q_rows = Q + batch * q_batch + head * q_head;
  const element* const k_rows = K + batch * k_batch + kv_head * k_head;
  const element* const v_rows = V + batch * v_batch + kv_head * v_head;
  element* const o_rows = O + batch * o_batch + head * o_head;

  // Keys that the block's last row sees; tiles beyond it are never touched.
  const int diagonal = seq_kv - seq_q;
  const int last_row = (block_row + BLOCK_M < seq_q ? block_row + BLOCK_M : seq_q) - 1;
  const int visible = last_row + diagonal + 1 > 0 ? last_row + diagonal + 1 : 0;
  const int tiles = (visible + BLOCK_N - 1) / BLOCK_N;

  // Two commit groups a step, V then K, so that each is waited for alone. Past the end a group is empty.
  auto fetch_k = [&](int tile) {
    if (tile < tiles)
      copy_tile<BLOCK_N>(k_ring + tile % kStagesK * kTileBytes, k_rows, k_row, tile * BLOCK_N, seq_kv);
    ef::cp_async_commit();
  };
  auto fetch_v = [&](int tile) {
    if (tile < tiles)
      copy_tile<BLOCK_N>(v_ring + tile % kStagesV * kTileBytes, v_rows, v_row, tile * BLOCK_N, seq_kv);
    ef::cp_async_commit();
  };

  if (tiles > 0) copy_tile<BLOCK_M>(q_tile, q_rows, q_row, block_row, seq_q);
  ef::cp_async_commit();
  fetch_k(0);
  ef::cp_async_commit();  // no V tile yet: an empty group keeps the count
  fetch_k(1);

  // Accumulator layout: element e of n8 tile n is row lane / 4 + 8 * (e / 2), column n * 8 + lane % 4 * 2 + e % 2.
  float o[kTilesM][kHeadDim / 8][4] = {};
  float row_max[kTilesM][2], row_sum[kTilesM][2] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int t = 0; t < kTilesM; ++t) row_max[t][0] = row_max[t][1] = ef::neg_inf();
  const int first_limit = block_row + warp_row + diagonal + 1;  // keys that the warp's first row sees

#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    ef::cp_async_wait<2 * (kStagesK - 1)>();
    ef::syncthreads();  // K tile j is here for every thread, and every warp has left V tile j - 1
    fetch_v(j + kStagesV - 1);
    const int first_key = j * BLOCK_N;

    // S = Q K^T
    float s[kTilesM][BLOCK_N / 8][4] = {};
    multiply_keys(s, q_tile, warp_row, k_ring + j % kStagesK * kTileBytes, lane);

    ef::cp_async_wait<2 * (kStagesV - 1)>();
    ef::syncthreads();  // V tile j is here for every thread, and every warp has left K tile j
    fetch_k(j + kStagesK);

    // Mask: only tiles that reach past the first row's last visible key.
    if (first_key + BLOCK_N > (first_limit < seq_kv ? first_limit : seq_kv)) {
#pragma unroll
      for (int t = 0; t < kTilesM; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row_limit = first_limit + t * 16 + lane / 4 + e / 2 * 8;
          const int limit = row_limit < seq_kv ? row_limit : seq_kv;
#pragma unroll
          for (int n = 0; n < BLOCK_N / 8; ++n)
            if (first_key + n * 8 + lane % 4 * 2 + e % 2 >= limit) s[t][n][e] = ef::neg_inf();
        }
    }

    // Lazy rescale: row_max is a reference that lags behind the true maximum by at most 2^tau.
    float tile_max[kTilesM][2];
    bool outgrown = false;
#pragma unroll
    for (int t = 0; t < kTilesM; ++t)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float best = ef::neg_inf();
#pragma unroll
        for (int n = 0; n < BLOCK_N / 8; ++n)
          best = ef::fmax(best, ef::fmax(s[t][n][2 * h], s[t][n][2 * h + 1]));
        tile_max[t][h] = quad_max(best);
        outgrown |= tile_max[t][h] * scale_log2 > row_max[t][h] * scale_log2 + kTau;
      }
    if (ef::any_sync(outgrown)) {
#pragma unroll
      for (int t = 0; t < kTilesM; ++t)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float new_max = ef::fmax(row_max[t][h], tile_max[t][h]);
          const float shift = new_max == ef::neg_inf() ? 0.0f : ef::mul(new_max, scale_log2);
          const float shrink = ef::ex2(ef::sub(ef::mul(row_max[t][h], scale_log2), shift));
          row_max[t][h] = new_max;
          row_sum[t][h] *= shrink;
#pragma unroll
          for (int n = 0; n < kHeadDim / 8; ++n) {
            o[t][n][2 * h] *= shrink;
            o[t][n][2 * h + 1] *= shrink;
          }
        }
    }
#pragma unroll
    for (int t = 0; t < kTilesM; ++t)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float shift = row_max[t][h] == ef::neg_inf() ? 0.0f : ef::mul(row_max[t][h], scale_log2);
#pragma unroll
        for (int n = 0; n < BLOCK_N / 8; ++n)
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            s[t][n][e] = ef::ex2(ef::fma(s[t][n][e], scale_log2, -shift));
            row_sum[t][h] += s[t][n][e];
          }
      }

    // O += P V
    multiply_values(o, s, v_ring + j % kStagesV * kTileBytes, lane);
  }

  // A warp's rows of the Q tile are its own: O is gathered there and leaves in 16-byte stores.
  ef::syncwarp();
#pragma unroll
  for (int t = 0; t < kTilesM; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = quad_sum(row_sum[t][h]);
      const float inverse = sum == 0.0f ? 0.0f : ef::rcp(sum);  // a fully masked row gives O = 0
      const int tile_row = warp_row + t * 16 + lane / 4 + h * 8;
      const int row = block_row + tile_row;
      if (LSE && lane % 4 == 0 && row < seq_q) {
        const float lse = sum == 0.0f ? ef::neg_inf() : row_max[t][h] * scale + ef::lg2(sum) * kLn2;
        ef::stg(LSE + ((long long)batch * heads + head) * seq_q + row, lse);
      }
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n)
        ef::sts(chunk_at(q_tile, tile_row, n) + lane % 4 * 4,
                ef::pack2(o[t][n][2 * h] * inverse, o[t][n][2 * h + 1] * inverse, element()));
    }
  ef::syncwarp();
#pragma unroll
  for (int i = lane; i < kRowsPerWarp * kChunks; i += 32) {
    const int tile_row = warp_row + i / kChunks, chunk = i % kChunks;
    if (block_row + tile_row < seq_q)
      ef::stg((ef::u32x4*)(o_rows + (block_row + tile_row) * o_row + chunk * 8),
              ef::lds<ef::u32x4>(chunk_at(q_tile, tile_row, chunk)));
  }
}
EF_EXPORT_KERNEL(flash_mma)
