// Memory that is mapped piece by piece and never moves.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace xpsql {

constexpr size_t huge_page = size_t{1} << 21;

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Zeroed memory in huge pages where the system has them: random reads over gigabytes of 4 kB pages spend most of their time in
// misses of the translation buffer. Pages are resident from their first touch on.
class Mapping {
  public:
    // `bytes`: a multiple of huge_page. Throws std::bad_alloc.
    explicit Mapping(size_t bytes) : bytes_(bytes) {
        void* raw = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (raw == MAP_FAILED) throw std::bad_alloc();
        uint8_t* begin = static_cast<uint8_t*>(raw);
        begin_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(begin), huge_page));
        const size_t before = static_cast<size_t>(begin_ - begin);
        if (before > 0) munmap(begin, before);
        munmap(begin_ + bytes, huge_page - before);
#ifdef MADV_HUGEPAGE
        madvise(begin_, bytes, MADV_HUGEPAGE);
#endif
    }

    Mapping(Mapping&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}
    Mapping& operator=(Mapping&&) = delete;

    ~Mapping() {
        if (begin_) munmap(begin_, bytes_);
    }

    uint8_t* begin() const { return begin_; }

  private:
    uint8_t* begin_;
    size_t bytes_;
};

struct Region {
    uint8_t* begin = nullptr;
    size_t bytes = 0;
};

// Makes pages of zeros resident, where the system can be asked to; what is there already stays, and memory that is gone is no
// error.
inline void make_resident(Region region) {
#ifdef MADV_POPULATE_WRITE
    madvise(region.begin, region.bytes, MADV_POPULATE_WRITE);
#else
    (void)region;
#endif
}

}  // namespace xpsql
