// Every primitive of sm_90a once, so that each compiler sees it; nothing here is meant to run.
#include "ef.h"

using ef::u16;
using ef::u32;
using ef::u64;

// Barriers: all kinds of arrival and of waiting.
extern "C" __global__ void __launch_bounds__(128, 1) barriers(const u32* in, u32* out) {
  const u32 bar = ef::smem_base();
  if (ef::elect_one()) {
    ef::mbar_init(bar, 128);
    ef::fence_mbar_init();
  }
  ef::syncthreads();
  ef::mbar_arrive_n(bar, 2);
  ef::mbar_arrive_expect_tx(bar, 64);
  ef::mbar_expect_tx(bar, 64);
  while (!ef::mbar_try_wait(bar, 0)) {
  }
  ef::mbar_wait(bar, 1);
  ef::mbar_poll(bar, 1);
  const u32 other = ef::map_shared(bar, ef::cluster_rank() ^ 1);
  ef::mbar_arrive_cluster(other);
  ef::mbar_arrive_cluster_async(other);
  ef::mbar_arrive_expect_tx_cluster(other, 16);
  ef::reg_dec<40>();
  ef::reg_inc<160>();
  ef::grid_wait();
  ef::grid_launch_dependents();
  ef::stg(out, ef::bf16_of_two_e4m3(ef::e4m3_of_f32(ef::to_f32(ef::f16{u16(ef::ldg(in))}), 1.0f)));
}
EF_EXPORT_KERNEL(barriers)

// Matrices to shared memory.
extern "C" __global__ void __launch_bounds__(32) matrices(u32* out) {
  const u32 row = ef::smem_base() + threadIdx.x * 16;
  const u32 one[1] = {1}, two[2] = {1, 2}, four[4] = {1, 2, 3, 4};
  ef::stmatrix_x1(row, one);
  ef::stmatrix_x1_trans(row, one);
  ef::stmatrix_x2(row, two);
  ef::stmatrix_x2_trans(row, two);
  ef::stmatrix_x4(row, four);
  ef::stmatrix_x4_trans(row, four);
  ef::syncwarp();
  ef::stg(out, ef::lds<u32>(row));
}
EF_EXPORT_KERNEL(matrices)

template <int R>
EF_DEV void boxes(const ef::tensor_map* map, ef::coords<R> box, u32 bar) {
  const u32 smem = ef::smem_base() + 1024;
  const u64 policy = ef::l2_evict_first();
  ef::tma_prefetch(map, box);
  ef::tma_load(smem, map, box, bar);
  ef::tma_load_hint(smem, map, box, bar, policy);
  ef::tma_load_multicast(smem, map, box, bar, u16(3));
  ef::tma_load_multicast_hint(smem, map, box, bar, u16(3), policy);
  ef::mbar_wait(bar, 0);
  ef::tma_store(map, box, smem);
  ef::tma_store_hint(map, box, smem, policy);
  ef::tma_reduce_add(map, box, smem, ef::f16());
  ef::tma_reduce_add(map, box, smem, ef::bf16());
  ef::tma_reduce_add(map, box, smem, 0.0f);
}

// Boxes of one to five dimensions in both directions.
extern "C" __global__ void __launch_bounds__(32) tensors(EF_TMAP(map), EF_TMAP(other), int x) {
  const u32 bar = ef::smem_base();
  ef::tma_prefetch_map(&other);
  boxes(&map, ef::at(x), bar);
  boxes(&map, ef::at(x, 1), bar);
  boxes(&map, ef::at(x, 1, 2), bar);
  boxes(&map, ef::at(x, 1, 2, 3), bar);
  boxes(&map, ef::at(x, 1, 2, 3, 4u), bar);
  ef::bulk_commit();
  ef::bulk_wait_read<1>();
  ef::bulk_wait<0>();
}
EF_EXPORT_KERNEL(tensors)

// Rows of bytes in both directions and between blocks.
extern "C" __global__ void __launch_bounds__(32) rows(const u32* in, u32* out, float* sums) {
  const u32 bar = ef::smem_base(), smem = bar + 1024;
  ef::bulk_load(smem, in, 64, bar);
  ef::bulk_prefetch(in, 64);
  ef::bulk_load_hint(smem, in, 64, bar, ef::l2_evict_last());
  ef::bulk_load_multicast(smem, in, 64, bar, u16(3));
  ef::bulk_copy_cluster(ef::map_shared(smem, 1), smem, 64, ef::map_shared(bar, 1));
  ef::fence_proxy_async();
  ef::fence_proxy_async_global();
  ef::bulk_store(out, smem, 64);
  ef::bulk_reduce_add(sums, smem, u32(ef::l2_evict_normal() & 64));
  ef::bulk_commit();
  ef::bulk_wait<0>();
}
EF_EXPORT_KERNEL(rows)

// Other blocks' shared memory.
extern "C" __global__ void __launch_bounds__(32) neighbours(u32* out) {
  const u32 mine = ef::smem_base(), next = (ef::cluster_rank() + 1) % ef::cluster_size();
  const u32 other = ef::map_shared(mine, next);
  ef::cluster_arrive();
  ef::cluster_wait();
  ef::cluster_arrive_relaxed();
  ef::cluster_wait();
  ef::sts_cluster(other, ef::f16{1});
  ef::sts_cluster(other, 1u);
  ef::sts_cluster(other, ef::u32x2{1, 2});
  ef::sts_cluster(other, ef::u32x4{1, 2, 3, 4});
  ef::sts_async(other + 16, 5u, other + 32);
  ef::sts_async(other + 16, ef::u32x4{1, 2, 3, 4}, other + 32);
  ef::cluster_sync();
  const u32 sum = ef::lds_cluster<ef::f16>(other).bits + ef::lds_cluster<u32>(other) +
                  ef::lds_cluster<ef::u32x2>(other).y + ef::lds_cluster<ef::u32x4>(other).w;
  ef::stg(out + threadIdx.x, sum);
}
EF_EXPORT_KERNEL(neighbours)

// wgmma with all that stands around it; A in shared memory and in registers.
extern "C" __global__ void __launch_bounds__(128) products(float* out, int steps) {
  const u32 smem = ef::smem_base();
  const u64 a = ef::make_desc(smem, 16, 1024, ef::SWIZZLE_128B), b = ef::make_desc(smem + 8192, 16, 1024, ef::SWIZZLE_128B);
  ef::acc<32> d;
  ef::frag p;
  for (int i = 0; i < 4; ++i) p[i] = ef::ldg(reinterpret_cast<const u32*>(out) + i);
  for (int step = 0; step < steps; ++step) {
    ef::wgmma_fence_acc(d);
    ef::wgmma_fence_frag(p);
    ef::wgmma_fence();
    ef::wgmma_ss<0, 1>(d, a, b, step != 0, ef::f16());
    ef::wgmma_rs<1>(d, p, b, true, ef::f16());
    ef::wgmma_ss_e4m3(d, a, b, true);
    ef::wgmma_commit();
    ef::wgmma_wait<0>();
    ef::wgmma_fence_acc(d);
  }
  for (int i = 0; i < 32; ++i) ef::stg(out + threadIdx.x * 32 + i, d[i]);
}
EF_EXPORT_KERNEL(products)
