// A CUDA driver that records: the functions that launching takes, with a machine of this file's own behind them.
// Nothing runs. What is asked of it is written down, and read back by tests as text.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Status = int;
constexpr Status kSuccess = 0, kInvalidValue = 1, kInvalidContext = 201, kNotFound = 500;

struct Attribute {
  uint32_t id, pad, value[16];
};

struct Config {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  Attribute* attributes;
  uint32_t attribute_count;
};

std::mutex lock;
std::string log_text;
std::vector<int> argument_bytes;
std::map<std::string, void*> functions;
std::map<void*, std::string> names;
thread_local std::vector<void*> contexts;
int devices = 1, capability = 90, multiprocessors = 132, blocks_per_multiprocessor = 2, shared_limit = 232448;
int slow_us = 0;
bool is_silent = false;

template <class... T>
void note(const char* format, T... values) {
  char line[4096];
  std::snprintf(line, sizeof line, format, values...);
  log_text += line;
}

std::string hex(const void* data, int count) {
  std::string text;
  char pair[3];
  for (int i = 0; i < count; ++i) {
    std::snprintf(pair, sizeof pair, "%02x", static_cast<const unsigned char*>(data)[i]);
    text += pair;
  }
  return text;
}

std::string name_of(void* function) { return names.count(function) ? names[function] : "?"; }

}  // namespace

extern "C" {

// ---- what tests set and read

void recording_machine(int count, int cc, int sms, int blocks_per_sm, int most_shared_bytes) {
  devices = count, capability = cc, multiprocessors = sms, blocks_per_multiprocessor = blocks_per_sm;
  shared_limit = most_shared_bytes;
}

void recording_arguments(int count, const int* bytes) { argument_bytes.assign(bytes, bytes + count); }

// A launch then takes this long between reading the first half of its arguments and the second.
void recording_slow(int microseconds) { slow_us = microseconds; }

void recording_silent(int yes) { is_silent = yes; }

int recording_text(char* to, int room) {
  std::lock_guard<std::mutex> hold(lock);
  std::snprintf(to, room, "%s", log_text.c_str());
  return static_cast<int>(log_text.size());
}

void recording_clear() {
  std::lock_guard<std::mutex> hold(lock);
  log_text.clear();
}

// ---- the driver

Status cuInit(unsigned) { return kSuccess; }

Status cuDeviceGetCount(int* count) { return *count = devices, kSuccess; }

Status cuDeviceGet(int* device, int number) { return *device = 70 + number, kSuccess; }

Status cuDeviceGetName(char* name, int room, int) { return std::snprintf(name, room, "Recorder"), kSuccess; }

Status cuDeviceGetAttribute(int* value, int which, int) {
  if (which == 16) *value = multiprocessors;
  if (which == 75) *value = capability / 10;
  if (which == 76) *value = capability % 10;
  return kSuccess;
}

// Addresses of 2^40 and more are device memory, of the device that stands above bit 44.
Status cuPointerGetAttribute(int* value, int which, uint64_t address) {
  if (which != 9 || address < (1ull << 40)) return kInvalidValue;
  return *value = static_cast<int>(address >> 44) - 7, kSuccess;
}

Status cuDevicePrimaryCtxRetain(void** context, int device) {
  std::lock_guard<std::mutex> hold(lock);
  note("retain %d\n", device);
  return *context = reinterpret_cast<void*>(0x1000ll + device), kSuccess;
}

Status cuCtxGetCurrent(void** context) { return *context = contexts.empty() ? nullptr : contexts.back(), kSuccess; }

Status cuCtxPushCurrent_v2(void* context) { return contexts.push_back(context), kSuccess; }

Status cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  return contexts.pop_back(), kSuccess;
}

Status cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int held = 0;
  return std::swap(held, *mode), kSuccess;
}

Status cuModuleLoadData(void** module, const void* image) {
  std::lock_guard<std::mutex> hold(lock);
  if (contexts.empty()) return kInvalidContext;
  // Machine code, or PTX, as the launcher's variable of zeros is.
  if (std::memcmp(image, "\x7f" "ELF", 4) != 0 && std::memcmp(image, ".ver", 4) != 0) return kInvalidValue;
  note("load in %p\n", contexts.back());
  return *module = contexts.back(), kSuccess;
}

// Each module's variable of zeros lies at a place of its own.
Status cuModuleGetGlobal_v2(uint64_t* address, size_t* size, void*, const char*) {
  std::lock_guard<std::mutex> hold(lock);
  static uint64_t next = 0x7e0000000000;
  *address = next;
  *size = 1 << 16;
  next += *size;
  return kSuccess;
}

Status cuModuleGetFunction(void** function, void* module, const char* name) {
  std::lock_guard<std::mutex> hold(lock);
  const std::string key = std::to_string(reinterpret_cast<uintptr_t>(module)) + name;
  if (std::string(name) == "missing") return kNotFound;
  if (!functions.count(key)) functions[key] = reinterpret_cast<void*>(0xf000 + 16 * functions.size());
  names[functions[key]] = name;
  return *function = functions[key], kSuccess;
}

Status cuFuncSetAttribute(void* function, int which, int value) {
  std::lock_guard<std::mutex> hold(lock);
  note("set %s %d %d\n", name_of(function).c_str(), which, value);
  return which == 8 && value > shared_limit ? kInvalidValue : kSuccess;
}

Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
  return *blocks = blocks_per_multiprocessor, kSuccess;
}

Status cuOccupancyMaxActiveClusters(int* clusters, void*, const Config*) {
  return *clusters = multiprocessors * blocks_per_multiprocessor / 4, kSuccess;
}

Status cuGetErrorName(int status, const char** name) {
  *name = status == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE" : status == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_NOT_FOUND";
  return kSuccess;
}

// The recorded map: address, data type and the like, dimensions, strides, box.
Status cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* dims, const uint64_t* strides,
                              const uint32_t* box, const uint32_t* each, int interleave, int swizzle, int promotion,
                              int fill) {
  if (contexts.empty()) return kInvalidContext;
  if (reinterpret_cast<uintptr_t>(map) % 64 || reinterpret_cast<uintptr_t>(address) % 16) return kInvalidValue;
  uint64_t words[16] = {reinterpret_cast<uintptr_t>(address), uint64_t(type) << 32 | rank,
                        uint64_t(swizzle) << 32 | promotion, uint64_t(interleave) << 32 | fill};
  for (uint32_t i = 0; i < rank; ++i) {
    if (each[i] != 1) return kInvalidValue;
    words[4 + i] = dims[i];
    if (i + 1 < rank) words[8 + i] = strides[i];
    words[11 + i] = box[i];
  }
  std::memcpy(map, words, sizeof words);
  return kSuccess;
}

Status cuLaunchKernelEx(const Config* config, void* function, void** arguments, void**) {
  if (is_silent) return kSuccess;
  if (contexts.empty()) return kInvalidContext;
  std::string bytes;
  for (size_t i = 0; i < argument_bytes.size(); ++i) {
    if (slow_us && i == argument_bytes.size() / 2) std::this_thread::sleep_for(std::chrono::microseconds(slow_us));
    bytes += " " + hex(arguments[i], argument_bytes[i]);
  }
  std::lock_guard<std::mutex> hold(lock);
  note("launch %s grid %u %u %u block %u %u %u shared %u stream %p\n", name_of(function).c_str(), config->grid[0],
       config->grid[1], config->grid[2], config->block[0], config->block[1], config->block[2], config->shared_bytes,
       config->stream);
  for (uint32_t i = 0; i < config->attribute_count; ++i)
    note("attribute %u %s\n", config->attributes[i].id, hex(config->attributes[i].value, 64).c_str());
  log_text += "arguments" + bytes + "\n";
  return kSuccess;
}
}
