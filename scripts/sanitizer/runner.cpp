// Runs one job on a GPU: loads a cubin, fills buffers, launches, writes buffers back. Judges and times nothing.
//
//   g++ -std=c++17 -O1 runner.cpp -ldl -o sanitizer_runner
//   sanitizer_runner job.txt [unset]
//
// It starts in a fraction of what Python with CuPy takes, and under compute-sanitizer a process is started for every
// check. A job is a text of words; the file names in it are relative to the job's folder:
//
//   module CUBIN
//   limit SECONDS
//   buffer BYTES FROM BYTE TO     FROM a file, or "-": filled with BYTE; TO a file to write it to, or "-"
//   launch ENTRY GRID*3 BLOCK*3 SMEM_BYTES CLUSTER*3 COOPERATIVE DEPENDENT
//   pointer BUFFER                an argument of the last launch: a buffer's address
//   bytes HEX                     one by value
//   map BUFFER TYPE RANK DIMS*RANK STRIDES*(RANK-1) BOX*RANK SWIZZLE PROMOTION FILL_NAN     a CUtensorMap
//
// "unset": buffers without a file are left as they were allocated, as initcheck wants them.
// Exit codes: 0 done, 1 a CUDA error, whose name is printed, 2 a bad job, 3 the kernels did not end in time.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<unsigned char>;
using Address = unsigned long long;

// What is needed of cuda.h: a machine with a driver need not have the toolkit's headers.
constexpr int kNotReady = 600;
constexpr int kMaxDynamicShared = 8, kLargeClusters = 14;               // CUfunction_attribute
constexpr unsigned kCooperative = 2, kCluster = 4, kSerialization = 6;  // CUlaunchAttributeID

struct Attribute {
  unsigned id, pad;
  unsigned value[16];
};

struct Config {
  unsigned grid[3], block[3], smem_bytes;
  void* stream;
  Attribute* attributes;
  unsigned attribute_count;
};

struct alignas(128) TensorMap {
  unsigned char bytes[128];
};

void* driver() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    std::fprintf(stderr, "runner: no libcuda.so.1: install the NVIDIA driver\n");
    std::exit(1);
  }
  return library;
}

template <typename... Arguments>
int call(const char* name, Arguments... arguments) {
  void* const found = dlsym(driver(), name);
  if (!found) {
    std::fprintf(stderr, "runner: the driver has no %s: it is too old\n", name);
    std::exit(1);
  }
  return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
}

void stop(const char* where, int status) {
  const char* text = "unknown";
  call("cuGetErrorName", status, &text);
  std::printf("runner: %s: %s\n", where, text);
  std::fflush(stdout);
  _exit(1);  // a lost context cannot be torn down in order
}

template <typename... Arguments>
void must(const char* name, Arguments... arguments) {
  if (const int status = call(name, arguments...)) stop(name, status);
}

void bad(const std::string& what) {
  std::fprintf(stderr, "runner: bad job: %s\n", what.c_str());
  std::exit(2);
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) bad("no file " + path);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

struct Buffer {
  size_t bytes;
  std::string to;
  Address address;
};

struct Launch {
  std::string entry;
  unsigned grid[3], block[3], smem_bytes, cluster[3];
  bool cooperative, dependent;
  std::vector<std::unique_ptr<TensorMap>> arguments;  // each at most 128 bytes, aligned as a map must be
};

struct Job {
  std::string folder;
  bool leave_unset;
  void* module = nullptr;
  double limit_s = 10;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;

  std::string path(const std::string& name) const { return folder + "/" + name; }
  Address address(size_t buffer) const {
    if (buffer >= buffers.size()) bad("no buffer " + std::to_string(buffer));
    return buffers[buffer].address;
  }
  void argument(const void* value, size_t bytes) {
    if (launches.empty() || bytes > sizeof(TensorMap)) bad("an argument without a launch, or of too many bytes");
    auto place = std::make_unique<TensorMap>();
    std::memcpy(place->bytes, value, bytes);
    launches.back().arguments.push_back(std::move(place));
  }
};

template <typename T>
T next(std::istream& words, const char* what) {
  T value{};
  if (!(words >> value)) bad(std::string("no ") + what);
  return value;
}

template <typename T>
std::vector<T> several(std::istream& words, size_t count, const char* what) {
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) values.push_back(next<T>(words, what));
  return values;
}

void load_module(Job& job, std::istream& words) {
  const Bytes image = read_file(job.path(next<std::string>(words, "cubin")));
  must("cuModuleLoadData", &job.module, static_cast<const void*>(image.data()));
}

// Each allocation has the buffer's own size: memcheck knows no other bounds.
void make_buffer(Job& job, std::istream& words) {
  Buffer buffer{};
  buffer.bytes = next<size_t>(words, "size");
  const auto from = next<std::string>(words, "input");
  const int fill = next<int>(words, "byte");
  buffer.to = next<std::string>(words, "output");
  must("cuMemAlloc_v2", &buffer.address, buffer.bytes);
  if (from != "-") {
    const Bytes data = read_file(job.path(from));
    if (data.size() != buffer.bytes) bad("the size of " + from);
    must("cuMemcpyHtoD_v2", buffer.address, static_cast<const void*>(data.data()), data.size());
  } else if (!job.leave_unset) {
    must("cuMemsetD8_v2", buffer.address, static_cast<unsigned char>(fill), buffer.bytes);
  }
  job.buffers.push_back(buffer);
}

void read_launch(Job& job, std::istream& words) {
  Launch launch;
  launch.entry = next<std::string>(words, "entry");
  const auto numbers = several<unsigned>(words, 12, "launch number");
  std::memcpy(launch.grid, &numbers[0], sizeof launch.grid);
  std::memcpy(launch.block, &numbers[3], sizeof launch.block);
  launch.smem_bytes = numbers[6];
  std::memcpy(launch.cluster, &numbers[7], sizeof launch.cluster);
  launch.cooperative = numbers[10];
  launch.dependent = numbers[11];
  job.launches.push_back(std::move(launch));
}

void read_bytes(Job& job, std::istream& words) {
  const auto text = next<std::string>(words, "hex digits");
  Bytes value;
  for (size_t i = 0; i + 1 < text.size(); i += 2) value.push_back(std::stoi(text.substr(i, 2), nullptr, 16));
  job.argument(value.data(), value.size());
}

void make_map(Job& job, std::istream& words) {
  const Address address = job.address(next<size_t>(words, "buffer"));
  const int type = next<int>(words, "type");
  const auto rank = next<unsigned>(words, "rank");
  if (rank < 1 || rank > 5) bad("a map of rank " + std::to_string(rank));
  const auto dims = several<uint64_t>(words, rank, "dimension");
  auto strides = several<uint64_t>(words, rank - 1, "stride");
  strides.push_back(0);  // of a map of rank 1 the driver wants a place to look at
  const auto box = several<uint32_t>(words, rank, "box side");
  const std::vector<uint32_t> steps(rank, 1);
  const auto modes = several<int>(words, 3, "mode");
  TensorMap map{};
  must("cuTensorMapEncodeTiled", static_cast<void*>(&map), type, rank, reinterpret_cast<void*>(address), dims.data(),
       strides.data(), box.data(), steps.data(), /*interleave*/ 0, modes[0], modes[1], modes[2]);
  job.argument(&map, sizeof map);
}

void read_job(Job& job, const char* name) {
  std::ifstream words(name);
  if (!words) bad(std::string("no file ") + name);
  for (std::string word; words >> word;) {
    if (word == "module") load_module(job, words);
    else if (word == "limit") job.limit_s = next<double>(words, "limit");
    else if (word == "buffer") make_buffer(job, words);
    else if (word == "launch") read_launch(job, words);
    else if (word == "bytes") read_bytes(job, words);
    else if (word == "map") make_map(job, words);
    else if (word == "pointer") {
      const Address address = job.address(next<size_t>(words, "buffer"));
      job.argument(&address, sizeof address);
    } else bad("the word " + word);
  }
}

unsigned product(const unsigned* sides) { return sides[0] * sides[1] * sides[2]; }

std::vector<Attribute> attributes_of(const Launch& launch) {
  std::vector<Attribute> attributes;
  if (product(launch.cluster) > 1) {
    attributes.push_back({kCluster, 0, {launch.cluster[0], launch.cluster[1], launch.cluster[2]}});
  }
  if (launch.cooperative) attributes.push_back({kCooperative, 0, {1}});
  if (launch.dependent) attributes.push_back({kSerialization, 0, {1}});
  return attributes;
}

void enqueue(const Job& job, const Launch& launch, void* stream) {
  void* function = nullptr;
  must("cuModuleGetFunction", &function, job.module, launch.entry.c_str());
  must("cuFuncSetAttribute", function, kMaxDynamicShared, static_cast<int>(launch.smem_bytes));
  if (product(launch.cluster) > 8) must("cuFuncSetAttribute", function, kLargeClusters, 1);
  std::vector<void*> pointers;
  for (const auto& argument : launch.arguments) pointers.push_back(argument->bytes);
  auto attributes = attributes_of(launch);
  Config config{};
  std::memcpy(config.grid, launch.grid, sizeof config.grid);
  std::memcpy(config.block, launch.block, sizeof config.block);
  config.smem_bytes = launch.smem_bytes;
  config.stream = stream;
  config.attributes = attributes.data();
  config.attribute_count = static_cast<unsigned>(attributes.size());
  must("cuLaunchKernelEx", static_cast<const Config*>(&config), function, pointers.data(),
       static_cast<void**>(nullptr));
}

// Polls, so that a hang leaves this thread able to say so.
void await(void* stream, double limit_s) {
  const auto begin = std::chrono::steady_clock::now();
  int status;
  while ((status = call("cuStreamQuery", stream)) == kNotReady) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (spent.count() > limit_s) {
      std::printf("runner: the kernels did not end within %g s\n", limit_s);
      std::fflush(stdout);
      _exit(3);
    }
    usleep(200);
  }
  if (status) stop("kernel", status);
}

void write_back(const Job& job) {
  for (const Buffer& buffer : job.buffers) {
    if (buffer.to == "-") continue;
    Bytes data(buffer.bytes);
    must("cuMemcpyDtoH_v2", static_cast<void*>(data.data()), buffer.address, buffer.bytes);
    std::ofstream file(job.path(buffer.to), std::ios::binary);
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    if (!file.flush()) bad("cannot write " + buffer.to);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) bad("none given");
  const std::string name = words[1];
  const size_t slash = name.rfind('/');
  Job job;
  job.folder = slash == std::string::npos ? "." : name.substr(0, slash);
  job.leave_unset = count > 2 && std::string(words[2]) == "unset";
  int device = 0;
  void *context = nullptr, *stream = nullptr;
  must("cuInit", 0u);
  must("cuDeviceGet", &device, 0);
  must("cuDevicePrimaryCtxRetain", &context, device);
  must("cuCtxSetCurrent", context);
  must("cuStreamCreate", &stream, /*non-blocking*/ 1u);
  read_job(job, words[1]);
  // Where a tool holds this thread inside a launch, nobody polls.
  alarm(static_cast<unsigned>(job.limit_s) + 10);
  must("cuCtxSynchronize");  // memsets and copies are on another stream
  for (const Launch& launch : job.launches) enqueue(job, launch, stream);
  await(stream, job.limit_s);
  write_back(job);  // also what was left unset: initcheck then sees outputs that nobody wrote
  return 0;
}
