// The stack switch in hand-written assembly for x86-64 and aarch64, through ucontext elsewhere or when
// EFEMU_UCONTEXT is defined (portable, a system call a switch, three times slower in all).
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if !defined(EFEMU_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define EFEMU_UCONTEXT
#endif
#if defined(EFEMU_UCONTEXT)
#include <ucontext.h>

#include <new>
#endif

namespace efemu {
namespace {

// Kernels keep their register arrays here: 6 KB were the most seen in attention kernels.
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kPitchBytes = kStackBytes + kGuardBytes;

}  // namespace

Stacks::~Stacks() {
  if (memory_) munmap(memory_, count_ * kPitchBytes);
}

void Stacks::reserve(int count) {
  if (count <= count_) return;
  if (memory_) munmap(memory_, count_ * kPitchBytes);
  void* memory = mmap(nullptr, count * kPitchBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("evoflash emulator: no address space for the stacks");
    std::abort();
  }
  memory_ = static_cast<char*>(memory);
  count_ = count;
  for (int i = 0; i < count; ++i) mprotect(memory_ + i * kPitchBytes, kGuardBytes, PROT_NONE);
}

bool Stacks::contains(const void* address) const {
  const char* p = static_cast<const char*>(address);
  return memory_ && p >= memory_ && p < memory_ + count_ * kPitchBytes;
}

int Stacks::owner(const void* address) const {
  if (!contains(address)) return -1;
  return static_cast<int>(static_cast<size_t>(static_cast<const char*>(address) - memory_) / kPitchBytes);
}

#if defined(EFEMU_UCONTEXT)

extern "C" void efemu_switch_stack(void** save, void* load) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, static_cast<ucontext_t*>(load));
}

void* Stacks::start(int index, void (*entry)()) {
  char* bottom = memory_ + index * kPitchBytes + kGuardBytes;
  const size_t usable = (kStackBytes - sizeof(ucontext_t)) / 64 * 64;
  ucontext_t* first = new (bottom + usable) ucontext_t;
  getcontext(first);
  first->uc_stack.ss_sp = bottom;
  first->uc_stack.ss_size = usable;
  first->uc_link = nullptr;
  makecontext(first, entry, 0);
  return first;
}

#elif defined(__x86_64__)

// Six callee-saved registers and the resume address. It is popped and jumped to, because `ret` would
// mispredict every time: the return-stack buffer belongs to the other stack.
asm(R"(
.text
.globl efemu_switch_stack
.type efemu_switch_stack,@function
efemu_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size efemu_switch_stack, .-efemu_switch_stack
)");

void* Stacks::start(int index, void (*entry)()) {
  void** top = reinterpret_cast<void**>(memory_ + (index + 1) * kPitchBytes);
  *--top = nullptr;  // in the place of a return address: the ABI's alignment, and the end of a backtrace
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  return top;
}

#else  // aarch64

// x19 to x30 and the low halves of v8 to v15; the resume address is x30.
asm(R"(
.text
.globl efemu_switch_stack
.type efemu_switch_stack,%function
efemu_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  br x30
.size efemu_switch_stack, .-efemu_switch_stack
)");

void* Stacks::start(int index, void (*entry)()) {
  constexpr int kFrameWords = 20, kLinkRegister = 11;
  void** frame = reinterpret_cast<void**>(memory_ + (index + 1) * kPitchBytes) - kFrameWords;
  for (int word = 0; word < kFrameWords; ++word) frame[word] = nullptr;
  frame[kLinkRegister] = reinterpret_cast<void*>(entry);
  return frame;
}

#endif

}  // namespace efemu
