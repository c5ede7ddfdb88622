// Every look at the wall clock finds it hours before or after the last one; the monotonic clock is right.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long jump() {
  static long looks = 0;
  const long at = __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
  return (at * 7919 % 13 - 6) * 3600;
}
extern "C" int clock_gettime(clockid_t id, struct timespec* at) noexcept {
  static auto real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int status = real(id, at);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) at->tv_sec += jump();
  return status;
}
extern "C" int gettimeofday(struct timeval* at, void*) noexcept {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
extern "C" time_t time(time_t* at) noexcept {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
