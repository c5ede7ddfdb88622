// Forward attention on Hopper's asynchronous machinery, as a template would render it: one producer feeds rings
// of K and V tiles by TMA, one to three warpgroups of 64 query rows each compute on wgmma. The #defines below are
// its genes; tests prepend others. Written for the tests of the emulator, and once run on an H200 (notes/lab-notes.md).
#include "ef.h"

#ifndef ELEMENT
#define ELEMENT f16
#endif
#ifndef HEAD_DIM  // 64 or 128
#define HEAD_DIM 64
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef GQA_RATIO
#define GQA_RATIO 1
#endif
#ifndef CONSUMERS  // 1 to 3
#define CONSUMERS 2
#endif
#ifndef PRODUCER_WARPS  // 4 give registers away by setmaxnreg, 1 cannot
#define PRODUCER_WARPS 4
#endif
#ifndef TILE_KEYS  // a multiple of 16
#define TILE_KEYS 64
#endif
#ifndef K_STAGES
#define K_STAGES 2
#endif
#ifndef V_STAGES
#define V_STAGES 2
#endif
#ifndef OVERLAP  // the next tile's scores are computed while this tile's P V is
#define OVERLAP 0
#endif
#ifndef PING_PONG  // warpgroups issue their matrix products in turns; needs two consumers
#define PING_PONG 0
#endif
#ifndef SHARED_P  // P reaches the tensor cores through shared memory, not registers
#define SHARED_P 0
#endif
#ifndef CLUSTER  // query blocks that fetch K and V together
#define CLUSTER 1
#endif
#ifndef TMA_STORE  // O leaves by TMA, not by plain stores
#define TMA_STORE 1
#endif

using ef::u16;
using ef::u32;
using ef::u64;
using element = ef::ELEMENT;

constexpr int kHeadDim = HEAD_DIM;
constexpr int kGqaRatio = GQA_RATIO;  // query heads per key/value head
constexpr bool kCausal = CAUSAL;
constexpr int kConsumers = CONSUMERS;
constexpr int kProducerWarps = PRODUCER_WARPS;
constexpr int kThreads = 128 * kConsumers + 32 * kProducerWarps;
constexpr int kGroupRows = 64;  // query rows of a warpgroup: wgmma's M
constexpr int BLOCK_M = kGroupRows * kConsumers;
constexpr int BLOCK_N = TILE_KEYS;
constexpr int kStagesK = K_STAGES;
constexpr int kStagesV = V_STAGES;
constexpr bool kOverlap = OVERLAP;
constexpr bool kPingPong = PING_PONG;
constexpr bool kSharedP = SHARED_P;
constexpr int kCluster = CLUSTER;
constexpr int kShare = BLOCK_N / kCluster;  // rows of a tile that one block of the cluster fetches
// A producer of four warps keeps few registers, so that the consumers can have more than an equal part.
constexpr int kProducerRegisters = kConsumers == 1 ? 56 : kConsumers == 2 ? 24 : 32;
constexpr int kConsumerRegisters = kConsumers == 1 ? 256 : kConsumers == 2 ? 240 : 160;

// Tiles stand in panels of 64 columns: rows of 128 bytes, swizzled over 8 rows as TMA and wgmma do it.
constexpr int kPanels = kHeadDim / 64;
constexpr u32 kRowBytes = 128;
constexpr u32 kSwizzleBytes = 8 * kRowBytes;
constexpr u32 kPanelBytes = BLOCK_N * kRowBytes;  // of K and V
constexpr u32 kTileBytes = kPanels * kPanelBytes;
constexpr u32 kGroupPanelBytes = kGroupRows * kRowBytes;  // of Q, O and P
constexpr u32 kQueryBytes = kPanels * kGroupPanelBytes;   // of one warpgroup
constexpr u32 kScoreBytes = kSharedP ? (BLOCK_N + 63) / 64 * kGroupPanelBytes : 0;
constexpr u32 kDepthBytes = 32;                // 16 columns of a row: the depth of one wgmma
constexpr u32 kDepthRows = 16 * kRowBytes;     // 16 rows of a panel
constexpr int kArrivals = 4 * kConsumers * kCluster;  // that free a slot: one of each warp that reads it

// Named barriers; 0 is syncthreads's.
constexpr int kTurn = 1;   // and the next: whose turn it is to issue
constexpr int kGroup = 4;  // and the next: the threads of one warpgroup

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

static_assert(kHeadDim % 64 == 0 && BLOCK_N % 16 == 0 && BLOCK_N <= 256, "tile sizes");
static_assert(kShare % 8 == 0, "a block's share of a tile is whole swizzle patterns");
static_assert(!kPingPong || kConsumers > 1, "turns are taken by two or more");

// Accumulator layout of a warp: element 4n + e is row lane / 4 + 8 * (e / 2), column n * 8 + lane % 4 * 2 + e % 2.
using Scores = ef::acc<BLOCK_N / 2>;
using Output = ef::acc<kHeadDim / 2>;

// P as the A operand of P V: in registers, or the address of a tile.
struct Probabilities {
  ef::frag registers[kSharedP ? 1 : BLOCK_N / 16];
  u32 tile;
};

// The parity of the phase in which a ring's slot holds a tile.
template <int STAGES>
EF_DEV u32 phase_of(int tile) {
  return tile / STAGES & 1;
}

// Shared address of 16-byte chunk `chunk` of row `row` in a tile of 64 rows.
EF_DEV u32 chunk_at(u32 tile, int row, int chunk) {
  return tile + chunk / 8 * kGroupPanelBytes + row * kRowBytes + ((chunk % 8) ^ (row % 8)) * 16;
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

// Asks for the tile of rows [first, first + BLOCK_N); rows past the end become zeros. In a cluster each block
// asks for its share of the rows, for all of them: every block's barrier gets the bytes of the whole tile.
EF_DEV void fetch(u32 tile, const ef::tensor_map* map, int first, int head, int batch, u32 full) {
  ef::mbar_arrive_expect_tx(full, kTileBytes);
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    if constexpr (kCluster == 1) {
      ef::tma_load(tile + panel * kPanelBytes, map, ef::at(panel * 64, first, head, batch), full);
    } else {
      const int share = int(ef::cluster_rank()) * kShare;
      ef::tma_load_multicast(tile + panel * kPanelBytes + share * kRowBytes, map,
                             ef::at(panel * 64, first + share, head, batch), full, u16((1 << kCluster) - 1));
    }
  }
}

// This warp has left a slot of a ring: says so to the producers that fill it, one in each block of the cluster.
EF_DEV void release(u32 empty, int lane) {
  if constexpr (kCluster == 1) {
    if (lane == 0) ef::mbar_arrive(empty);
  } else {
    if (lane < kCluster) ef::mbar_arrive_cluster(ef::map_shared(empty, lane));
  }
}

// Starts S = Q K^T for a warpgroup's rows and one tile of keys: both operands are stored along head_dim.
EF_DEV void multiply_keys(Scores& s, u32 q_tile, u32 k_tile) {
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    const u32 a = q_tile + k / 4 * kGroupPanelBytes + k % 4 * kDepthBytes;
    const u32 b = k_tile + k / 4 * kPanelBytes + k % 4 * kDepthBytes;
    ef::wgmma_ss<0, 0>(s, ef::make_desc(a, 16, kSwizzleBytes, ef::SWIZZLE_128B),
                       ef::make_desc(b, 16, kSwizzleBytes, ef::SWIZZLE_128B), k > 0, element());
  }
  ef::wgmma_commit();
}

// Starts O += P V for one tile of values: V is stored along its columns, hence transposed.
EF_DEV void multiply_values(Output& o, const Probabilities& p, u32 v_tile) {
#pragma unroll
  for (int k = 0; k < BLOCK_N / 16; ++k) {
    const u64 b = ef::make_desc(v_tile + k * kDepthRows, kPanelBytes, kSwizzleBytes, ef::SWIZZLE_128B);
    if constexpr (kSharedP) {
      const u32 a = p.tile + k / 4 * kGroupPanelBytes + k % 4 * kDepthBytes;
      ef::wgmma_ss<0, 1>(o, ef::make_desc(a, 16, kSwizzleBytes, ef::SWIZZLE_128B), b, true, element());
    } else {
      ef::wgmma_rs<1>(o, p.registers[k], b, true, element());
    }
  }
  ef::wgmma_commit();
}

// Hides the keys from `limit` on; the limit of row lane / 4 + 8 of the warp is 8 more under a causal mask.
EF_DEV void hide(Scores& s, int first_key, int limit, int seq_kv, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row_limit = kCausal ? limit + lane / 4 + h * 8 : seq_kv;
    const int end = (row_limit < seq_kv ? row_limit : seq_kv) - first_key - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < BLOCK_N / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (n * 8 + e >= end) s[4 * n + 2 * h + e] = ef::neg_inf();
  }
}

// Turns scores into probabilities against the new row maxima; `shrink` is what the sums and outputs so far weigh.
EF_DEV void softmax(Scores& s, float (&row_max)[2], float (&row_sum)[2], float (&shrink)[2], float scale_log2) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float best = row_max[h];
#pragma unroll
    for (int n = 0; n < BLOCK_N / 8; ++n) best = ef::fmax(best, ef::fmax(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
    best = quad_max(best);
    // Both products rounded alike and never fused: a maximum that stays shrinks its row by exactly 1.
    const float shift = best == ef::neg_inf() ? 0.0f : ef::mul(best, scale_log2);
    shrink[h] = ef::ex2(ef::sub(ef::mul(row_max[h], scale_log2), shift));
    row_max[h] = best;
    row_sum[h] *= shrink[h];
#pragma unroll
    for (int n = 0; n < BLOCK_N / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float p = ef::ex2(ef::fma(s[4 * n + 2 * h + e], scale_log2, -shift));
        s[4 * n + 2 * h + e] = p;
        row_sum[h] += p;
      }
  }
}

EF_DEV void rescale(Output& o, const float (&shrink)[2]) {
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) o[i] *= shrink[i / 2 % 2];
}

// Rounds P for the tensor cores: two n8 tiles of scores are one k16 fragment of operand A.
EF_DEV void pack(Probabilities& p, Scores& s, int group, int warp_row, int lane) {
#pragma unroll
  for (int k = 0; k < BLOCK_N / 16; ++k) {
    u32 r[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) r[i] = ef::pack2(s[8 * k + 2 * i], s[8 * k + 2 * i + 1], element());
    if constexpr (kSharedP) {
      ef::stmatrix_x4(chunk_at(p.tile, warp_row + lane % 16, 2 * k + lane / 16), r);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) p.registers[k][i] = r[i];
    }
  }
  if constexpr (kSharedP) {
    ef::fence_proxy_async();            // the tensor cores are to see what stmatrix wrote,
    ef::bar_sync(kGroup + group, 128);  // all four warps' rows
  }
}

// Q, O: (batch, heads, seq_q, head_dim); K, V: (batch, kv_heads, seq_kv, head_dim); strides in elements. Their
// tensor maps have four dimensions (head_dim, row, head, batch), boxes of 64 columns x 64 rows of Q and O, x kShare
// rows of K and V, and the 128-byte swizzle.
// LSE: dense (batch, heads, seq_q), natural logarithm, may be null.
// Causal, bottom-right aligned: query i sees keys j <= i + seq_kv - seq_q.
// Grid: query blocks (a multiple of the cluster), heads, batch.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
hopper(EF_TMAP(Q_map), EF_TMAP(K_map), EF_TMAP(V_map),
#if TMA_STORE
       EF_TMAP(O_map),
#endif
       const element* Q, const element* K, const element* V, element* O, float* LSE,
       int seq_q, int seq_kv, int heads, int kv_heads,
       long long q_batch, long long q_head, long long q_row,
       long long k_batch, long long k_head, long long k_row,
       long long v_batch, long long v_head, long long v_row,
       long long o_batch, long long o_head, long long o_row, float scale) {
  const int lane = threadIdx.x % 32;
  const int warp = ef::shfl_idx(int(threadIdx.x) / 32, 0);  // known to be uniform: descriptors in uniform registers
  const int group = warp / 4;                               // the consumers', then the producer
  const int warp_row = warp % 4 * 16;                       // within the warpgroup

  const u32 q_tiles = ef::smem_base();
  const u32 k_ring = q_tiles + kConsumers * kQueryBytes;
  const u32 v_ring = k_ring + kStagesK * kTileBytes;
  const u32 p_tiles = v_ring + kStagesV * kTileBytes;
  const u32 q_full = p_tiles + kConsumers * kScoreBytes;  // mbarriers, 8 bytes each
  const u32 k_full = q_full + 8, k_empty = k_full + 8 * kStagesK;
  const u32 v_full = k_empty + 8 * kStagesK, v_empty = v_full + 8 * kStagesV;

  const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / kGqaRatio;
  // Under a causal mask the last query block sees the most keys: it is launched first.
  const int blocks = gridDim.x, first_block = int(blockIdx.x) / kCluster * kCluster;
  const int block_row = (kCausal ? blocks - 1 - int(blockIdx.x) : int(blockIdx.x)) * BLOCK_M;
  // Keys that the last row of the cluster sees: its blocks walk the same tiles.
  const int diagonal = seq_kv - seq_q;
  int visible = seq_kv;
  if constexpr (kCausal) {
    const int end_row = (blocks - first_block) * BLOCK_M;
    visible = (end_row < seq_q ? end_row : seq_q) + diagonal;
  }
  const int tiles = visible > 0 ? (visible + BLOCK_N - 1) / BLOCK_N : 0;

  if (threadIdx.x == 0) {
    ef::mbar_init(q_full, 1);
    for (int i = 0; i < kStagesK; ++i) {
      ef::mbar_init(k_full + 8 * i, 1);
      ef::mbar_init(k_empty + 8 * i, kArrivals);
    }
    for (int i = 0; i < kStagesV; ++i) {
      ef::mbar_init(v_full + 8 * i, 1);
      ef::mbar_init(v_empty + 8 * i, kArrivals);
    }
    ef::fence_mbar_init();
  }
  if constexpr (kCluster > 1) {
    ef::cluster_sync();
  } else {
    ef::syncthreads();
  }

  if (group == kConsumers) {
    if constexpr (kProducerWarps == 4) ef::reg_dec<kProducerRegisters>();
    if (warp == 4 * kConsumers && ef::elect_one()) {
      ef::tma_prefetch_map(&K_map);
      ef::tma_prefetch_map(&V_map);
      if (tiles > 0) {
        ef::mbar_arrive_expect_tx(q_full, kConsumers * kQueryBytes);
#pragma unroll
        for (int i = 0; i < kConsumers * kPanels; ++i)
          ef::tma_load(q_tiles + i * kGroupPanelBytes, &Q_map,
                       ef::at(i % kPanels * 64, block_row + i / kPanels * kGroupRows, head, batch), q_full);
      }
      // With overlap K runs one tile ahead of V, as the consumers want them.
      constexpr int kLag = kOverlap ? 1 : 0;
#pragma unroll 1
      for (int j = 0; j < tiles + kLag; ++j) {
        if (j < tiles) {
          const int slot = j % kStagesK;
          ef::mbar_wait(k_empty + 8 * slot, phase_of<kStagesK>(j) ^ 1);  // a fresh barrier lets the first round pass
          fetch(k_ring + slot * kTileBytes, &K_map, j * BLOCK_N, kv_head, batch, k_full + 8 * slot);
        }
        if (j >= kLag) {
          const int slot = (j - kLag) % kStagesV;
          ef::mbar_wait(v_empty + 8 * slot, phase_of<kStagesV>(j - kLag) ^ 1);
          fetch(v_ring + slot * kTileBytes, &V_map, (j - kLag) * BLOCK_N, kv_head, batch, v_full + 8 * slot);
        }
      }
    }
    ef::syncwarp();
  } else {
    if constexpr (kProducerWarps == 4) ef::reg_inc<kConsumerRegisters>();
    const u32 q_tile = q_tiles + group * kQueryBytes;
    const int first_row = block_row + group * kGroupRows + warp_row;      // of the warp
    const int limit = kCausal ? first_row + diagonal + 1 : seq_kv;        // keys that its first row sees
    const int unmasked = limit < seq_kv ? limit : seq_kv;                 // keys that all of its rows see
    const float scale_log2 = scale * kLog2e;

    Scores s;
    Output o;
    Probabilities p;
    p.tile = p_tiles + group * kScoreBytes;
    float row_max[2] = {ef::neg_inf(), ef::neg_inf()}, row_sum[2] = {}, shrink[2];
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) o[i] = 0.0f;

    auto take_turn = [&] {
      if constexpr (kPingPong) ef::bar_sync(kTurn + group, 256);
    };
    auto pass_turn = [&](int j) {  // nobody waits for the last one
      if constexpr (kPingPong)
        if (group + 1 < kConsumers || j + 1 < tiles) ef::bar_arrive(kTurn + (group + 1) % kConsumers, 256);
    };
    if (tiles > 0) {
      if constexpr (kPingPong)
        if (group == kConsumers - 1) ef::bar_arrive(kTurn, 256);  // the first group begins
      ef::mbar_wait(q_full, 0);
    }

    if constexpr (kOverlap) {
      if (tiles > 0) {
        ef::mbar_wait(k_full, 0);
        take_turn();
        ef::wgmma_fence_acc(s);
        ef::wgmma_fence();
        multiply_keys(s, q_tile, k_ring);
        pass_turn(0);
        ef::wgmma_wait<0>();
        ef::wgmma_fence_acc(s);
        release(k_empty, lane);
        if (BLOCK_N > unmasked) hide(s, 0, limit, seq_kv, lane);
        softmax(s, row_max, row_sum, shrink, scale_log2);
        pack(p, s, group, warp_row, lane);
      }
#pragma unroll 1
      for (int j = 1; j < tiles; ++j) {
        const int k_slot = j % kStagesK, v_slot = (j - 1) % kStagesV;
        ef::mbar_wait(k_full + 8 * k_slot, phase_of<kStagesK>(j));
        take_turn();
        ef::wgmma_fence_acc(s);
        ef::wgmma_fence_acc(o);
        ef::wgmma_fence();
        multiply_keys(s, q_tile, k_ring + k_slot * kTileBytes);
        ef::mbar_wait(v_full + 8 * v_slot, phase_of<kStagesV>(j - 1));
        multiply_values(o, p, v_ring + v_slot * kTileBytes);
        pass_turn(j);
        ef::wgmma_wait<1>();  // the scores are there, P V may still be under way
        ef::wgmma_fence_acc(s);
        release(k_empty + 8 * k_slot, lane);
        if ((j + 1) * BLOCK_N > unmasked) hide(s, j * BLOCK_N, limit, seq_kv, lane);
        softmax(s, row_max, row_sum, shrink, scale_log2);
        ef::wgmma_wait<0>();
        ef::wgmma_fence_acc(o);
        release(v_empty + 8 * v_slot, lane);
        rescale(o, shrink);
        pack(p, s, group, warp_row, lane);  // P of the tile before is read until here
      }
      if (tiles > 0) {
        const int v_slot = (tiles - 1) % kStagesV;
        ef::mbar_wait(v_full + 8 * v_slot, phase_of<kStagesV>(tiles - 1));
        ef::wgmma_fence_acc(o);
        ef::wgmma_fence();
        multiply_values(o, p, v_ring + v_slot * kTileBytes);
        ef::wgmma_wait<0>();
        ef::wgmma_fence_acc(o);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < tiles; ++j) {
        const int k_slot = j % kStagesK, v_slot = j % kStagesV;
        ef::mbar_wait(k_full + 8 * k_slot, phase_of<kStagesK>(j));
        take_turn();
        ef::wgmma_fence_acc(s);
        ef::wgmma_fence();
        multiply_keys(s, q_tile, k_ring + k_slot * kTileBytes);
        pass_turn(j);
        ef::wgmma_wait<0>();
        ef::wgmma_fence_acc(s);
        release(k_empty + 8 * k_slot, lane);
        if ((j + 1) * BLOCK_N > unmasked) hide(s, j * BLOCK_N, limit, seq_kv, lane);
        softmax(s, row_max, row_sum, shrink, scale_log2);
        rescale(o, shrink);
        pack(p, s, group, warp_row, lane);
        ef::mbar_wait(v_full + 8 * v_slot, phase_of<kStagesV>(j));
        ef::wgmma_fence_acc(o);
        ef::wgmma_fence();
        multiply_values(o, p, v_ring + v_slot * kTileBytes);
        ef::wgmma_wait<0>();
        ef::wgmma_fence_acc(o);
        release(v_empty + 8 * v_slot, lane);
      }
    }

    float inverse[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = quad_sum(row_sum[h]);
      inverse[h] = sum == 0.0f ? 0.0f : ef::rcp(sum);  // a fully masked row gives O = 0
      const int row = first_row + lane / 4 + h * 8;
      if (LSE && lane % 4 == 0 && row < seq_q) {
        const float lse = sum == 0.0f ? ef::neg_inf() : row_max[h] * scale + ef::lg2(sum) * kLn2;
        ef::stg(LSE + ((long long)batch * heads + head) * seq_q + row, lse);
      }
    }
#if TMA_STORE
    // A warp's rows of the Q tile are its own: O is gathered there, and one thread of the warpgroup sends it.
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      u32 r[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        r[i] = ef::pack2(o[4 * n + 2 * i] * inverse[i % 2], o[4 * n + 2 * i + 1] * inverse[i % 2], element());
      ef::stmatrix_x4(chunk_at(q_tile, warp_row + lane % 16, n + lane / 16), r);
    }
    ef::fence_proxy_async();
    ef::bar_sync(kGroup + group, 128);
    if (warp % 4 == 0 && ef::elect_one()) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel)
        ef::tma_store(&O_map, ef::at(panel * 64, first_row, head, batch), q_tile + panel * kGroupPanelBytes);
      ef::bulk_commit();
      ef::bulk_wait_read<0>();  // shared memory must outlive the reading
    }
    ef::syncwarp();
#else
    element* const o_rows = O + batch * o_batch + head * o_head;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + lane / 4 + h * 8;
      if (row < seq_q)
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n)
          ef::stg((u32*)(o_rows + row * o_row + n * 8 + lane % 4 * 2),
                  ef::pack2(o[4 * n + 2 * h] * inverse[h], o[4 * n + 2 * h + 1] * inverse[h], element()));
    }
#endif
  }
  // The others may still send copies or arrivals here.
  if constexpr (kCluster > 1) ef::cluster_sync();
}
EF_EXPORT_KERNEL(hopper)
