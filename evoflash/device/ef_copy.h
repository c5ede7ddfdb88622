// cp.async: copies from global to shared memory that each thread starts and waits for by itself.
#pragma once
#include "ef_base.h"

namespace ef {

// Starts copying 16 bytes from global to shared memory, past L1.
EF_DEV void cp_async16(u32 target, const void* source EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
#else
  efemu::copy_async(target, source, true, line);
#endif
}

// The same where `inside`; elsewhere writes 16 zero bytes and does not touch `source`.
EF_DEV void cp_async16_zfill(u32 target, const void* source, bool inside EF_LINE) {
#if EF_GPU
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
#else
  efemu::copy_async(target, source, inside, line);
#endif
}

// cp_async16_zfill with a hint that the 64, 128 or 256 bytes around the source should come to L2 together.
template <int kL2Bytes>
EF_DEV void cp_async16_zfill_l2(u32 target, const void* source, bool inside EF_LINE) {
  static_assert(kL2Bytes == 64 || kL2Bytes == 128 || kL2Bytes == 256, "cp_async16_zfill_l2: 64, 128 or 256");
#if EF_GPU
  const int bytes = inside ? 16 : 0;
  if constexpr (kL2Bytes == 64)
    asm volatile("cp.async.cg.shared.global.L2::64B [%0], [%1], 16, %2;" ::
                 "r"(target), "l"(source), "r"(bytes) : "memory");
  else if constexpr (kL2Bytes == 128)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::
                 "r"(target), "l"(source), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::
                 "r"(target), "l"(source), "r"(bytes) : "memory");
#else
  efemu::copy_async(target, source, inside, line);
#endif
}

// cp_async16_zfill of what is read once: its bytes leave L2 before others, where the 128 around the source come together.
EF_DEV void cp_async16_zfill_once(u32 target, const void* source, bool inside EF_LINE) {
#if EF_GPU
  const int bytes = inside ? 16 : 0;
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::
               "r"(target), "l"(source), "r"(bytes), "l"(policy) : "memory");
#else
  efemu::copy_async(target, source, inside, line);
#endif
}

// cp_async16_zfill that keeps the line in L1 as well: other blocks of the SM may find it there.
EF_DEV void cp_async16_zfill_l1(u32 target, const void* source, bool inside EF_LINE) {
#if EF_GPU
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
#else
  efemu::copy_async(target, source, inside, line);
#endif
}

// cp_async16_zfill for 4 bytes, through L1.
EF_DEV void cp_async4_zfill(u32 target, const void* source, bool inside EF_LINE) {
#if EF_GPU
  const int bytes = inside ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
#else
  efemu::copy_async(target, source, inside, line, 4);
#endif
}

// cp_async16_zfill for 8 bytes, through L1.
EF_DEV void cp_async8_zfill(u32 target, const void* source, bool inside EF_LINE) {
#if EF_GPU
  const int bytes = inside ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
#else
  efemu::copy_async(target, source, inside, line, 8);
#endif
}

// Closes this thread's group of copies; an empty group is legal.
EF_DEV void cp_async_commit(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  efemu::commit_copies(line);
#endif
}

// Waits until at most N of this thread's newest groups are still under way.
template <int N>
EF_DEV void cp_async_wait(EF_ONLY_LINE) {
  static_assert(N >= 0, "cp_async_wait: a number of groups");
#if EF_GPU
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#else
  efemu::wait_copies(N, line);
#endif
}

}  // namespace ef
