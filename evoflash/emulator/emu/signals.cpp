// Signal handlers that end the block instead of the process.
#include "signals.h"

#include <link.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "block.h"
#include "counters.h"
#include "global.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace efemu {

namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kFaultCount = sizeof kFaults / sizeof kFaults[0];
constexpr int kTimeSignal = SIGVTALRM;
constexpr size_t kHandlerStackBytes = 64 << 10;  // its own: a fiber's may be what has run out

// The executable part of the library that holds the kernel.
struct Code {
  uintptr_t kernel, load_address, begin, end;
} code;

struct sigaction old_faults[kFaultCount], old_time;
stack_t old_stack;
void* handler_stack = nullptr;
timer_t timer;
bool timer_exists = false;

// The CPU time is looked at so often. A thread that between several looks does nothing that is counted, no access,
// barrier or product, is in a loop that does not end.
constexpr double kLookEveryS = 1;
constexpr int kLooksInVain = 2;
double left_s;  // of the CPU limit
int looks_in_vain;
const Thread* seen;  // at the last look
Counters seen_counters;

int find_code(dl_phdr_info* library, size_t, void*) {
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    const uintptr_t begin = library->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || code.kernel < begin || code.kernel >= end) continue;
    code.load_address = library->dlpi_addr;
    code.begin = begin;
    code.end = end;
    return 1;
  }
  return 0;
}

uintptr_t program_counter(const void* machine_state) {
  const auto* state = static_cast<const ucontext_t*>(machine_state);
#if defined(__x86_64__)
  return static_cast<uintptr_t>(state->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(state->uc_mcontext.pc);
#else
  (void)state;
  return 0;
#endif
}

bool in_kernel(uintptr_t pc) {
  return pc >= code.begin && pc < code.end;
}

// The line comes from the debug information, by the offset; the last primitive's stands in where pc is elsewhere.
[[noreturn]] void end_with(const char* kind, uintptr_t pc, const std::string& message) {
  const bool known = in_kernel(pc);
  add_report(kind, self->line, 0, message, known ? pc - code.load_address : 0);
  abandon_block();
}

void forward(int signal) {
  for (int i = 0; i < kFaultCount; ++i)
    if (kFaults[i] == signal) sigaction(signal, &old_faults[i], nullptr);
  // Returning repeats the fault, for the handler that was there before.
}

void on_fault(int signal, siginfo_t* info, void* machine_state) {
  const uintptr_t pc = program_counter(machine_state);
  const void* at = info->si_addr;
  const std::string who = self ? my_name() : "";
  if (self && signal == SIGSEGV && in_stacks(at))
    end_with("stack-overflow", pc, text("%s needs more stack than a fiber has: too large local arrays", who.c_str()));
  if (self && (in_kernel(pc) || near_buffer(at))) {
    if (signal == SIGILL)
      end_with("array-bounds", pc, text("%s indexes an array outside of its bounds", who.c_str()));
    if (signal == SIGFPE) end_with("divide-by-zero", pc, text("%s divides an integer by zero", who.c_str()));
    if (in_input(at))
      end_with("write-to-input", pc, text("raw write by %s at %s", who.c_str(), describe_global(at).c_str()));
    end_with("OOB-raw", pc, text("raw access by %s at %s", who.c_str(), describe_global(at).c_str()));
  }
  forward(signal);
}

void set_timer(double seconds, long long interval_ns) {
  const auto nanoseconds = static_cast<long long>(seconds * 1e9) + 1;
  itimerspec when{};
  when.it_value.tv_sec = nanoseconds / 1000000000;
  when.it_value.tv_nsec = nanoseconds % 1000000000;
  when.it_interval.tv_nsec = interval_ns;
  timer_settime(timer, 0, &when, nullptr);
}

// Until the limit, or until a thread has done nothing for long enough, the timer is set again.
void look_later() {
  const double pause_s = std::min(kLookEveryS, left_s);
  left_s -= pause_s;
  set_timer(pause_s, 5000000);
}

bool is_over() {
  const bool in_vain = self && self == seen && !std::memcmp(&counters, &seen_counters, sizeof counters);
  looks_in_vain = in_vain ? looks_in_vain + 1 : 0;
  seen = self;
  seen_counters = counters;
  return left_s <= 0 || looks_in_vain == kLooksInVain;
}

// In the kernel's own code the block ends at once. Elsewhere (the runtime, libm) that could leave a lock
// held: the flag ends it at the next primitive, and the timer comes again for a loop that has none.
void on_time(int, siginfo_t*, void* machine_state) {
  if (!expired && !is_over()) return look_later();
  if (!self) return;
  expired = 1;
  const uintptr_t pc = program_counter(machine_state);
  if (in_kernel(pc))
    end_with("TIMEOUT", pc,
             text("%s; %s was in code without primitives; %s",
                  left_s > 0 ? "it does not end" : "the CPU limit passed", my_name().c_str(), blocks_begun().c_str()));
}

constexpr size_t kMostCalls = 8;

_Unwind_Reason_Code note_call(_Unwind_Context* frame, void* out) {
  auto& calls = *static_cast<std::vector<u64>*>(out);
  const uintptr_t pc = _Unwind_GetIP(frame) - 1;  // of the call, not of what follows it
  if (in_kernel(pc)) calls.push_back(pc - code.load_address);
  return calls.size() < kMostCalls ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void start_timer(double cpu_limit_s) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kTimeSignal;
  event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
  timer_exists = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
  if (!timer_exists) return;
  left_s = cpu_limit_s;
  looks_in_vain = 0;
  seen = nullptr;
  look_later();
}

}  // namespace

std::vector<u64> calls_in_kernel() {
  std::vector<u64> calls;
  if (code.end) _Unwind_Backtrace(note_call, &calls);
  return calls;
}

u64 offset_in_kernel(const void* return_address) {
  const uintptr_t pc = reinterpret_cast<uintptr_t>(return_address) - 1;
  return in_kernel(pc) ? pc - code.load_address : 0;
}

Watch::Watch(const void* kernel_function, double cpu_limit_s) {
  expired = 0;
  code = {};
  code.kernel = reinterpret_cast<uintptr_t>(kernel_function);
  dl_iterate_phdr(find_code, nullptr);
  handler_stack = std::malloc(kHandlerStackBytes);
  stack_t stack{};
  stack.ss_sp = handler_stack;
  stack.ss_size = kHandlerStackBytes;
  sigaltstack(&stack, &old_stack);
  struct sigaction action {};
  // The handler may never return: nothing must stay blocked.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  action.sa_sigaction = on_fault;
  for (int i = 0; i < kFaultCount; ++i) sigaction(kFaults[i], &action, &old_faults[i]);
  action.sa_sigaction = on_time;
  action.sa_flags |= SA_RESTART;
  sigaction(kTimeSignal, &action, &old_time);
  start_timer(cpu_limit_s);
}

Watch::~Watch() {
  if (timer_exists) timer_delete(timer);
  for (int i = 0; i < kFaultCount; ++i) sigaction(kFaults[i], &old_faults[i], nullptr);
  sigaction(kTimeSignal, &old_time, nullptr);
  sigaltstack(&old_stack, nullptr);
  std::free(handler_stack);
}

}  // namespace efemu
