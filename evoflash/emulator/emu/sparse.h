// An array of zeros in pages that the system gives when they are written: as long as the address space permits, for
// what is kept about each granule of a buffer of which kernels touch little.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace efemu {

template <class Item>
class SparseArray {
 public:
  static_assert(std::is_trivially_copyable<Item>::value, "items begin as zero bytes and are never destroyed");

  explicit SparseArray(size_t items) : bytes_(items * sizeof(Item)) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    items_ = static_cast<Item*>(memory);
  }
  ~SparseArray() { munmap(items_, bytes_); }
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;

  void swap(SparseArray& other) {
    std::swap(bytes_, other.bytes_);
    std::swap(items_, other.items_);
  }

  Item& operator[](size_t at) { return items_[at]; }
  const Item* data() const { return items_; }

 private:
  size_t bytes_;
  Item* items_;
};

}  // namespace efemu
