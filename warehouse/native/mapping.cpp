// Files that are mapped to be read, and what happens where one is cut off meanwhile: the processor cannot read its pages any more
// and the system sends SIGBUS, whose handler puts zeros in place of the file from there on and marks the mapping. Who reads it asks
// for the mark afterwards. Its contract is _mapping.pyi.
#include <errno.h>
#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace nb = nanobind;

namespace xpsql {

namespace {

// The memory of a mapping. A handler reads it at any moment, so it takes no lock: `begin` is 0 where the place is free, and is
// written last.
struct Range {
    std::atomic<uintptr_t> begin{0}, end{0};
    std::atomic<bool> damaged{false};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free, "a handler takes no lock");

constexpr size_t most_ranges = 4096;
Range ranges[most_ranges];
std::mutex changing;  // of ranges and of the handler; never taken by the handler
struct sigaction before;
size_t page_bytes;

// Puts zeros in place of a file from an address on, which no file has any more; false where the address is in no range.
bool replaced(uintptr_t at) {
    for (Range& range : ranges) {
        const uintptr_t begin = range.begin.load(), end = range.end.load();
        if (begin == 0 || at < begin || at >= end || range.begin.load() != begin) continue;
        const uintptr_t page = at / page_bytes * page_bytes;
        range.damaged.store(true);  // before anybody reads a zero
        return mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
               MAP_FAILED;
    }
    return false;
}

void handle(int number, siginfo_t* info, void* context) {
    const int kept = errno;
    if (info->si_code > 0 && replaced(reinterpret_cast<uintptr_t>(info->si_addr))) {  // of the system, and not of raise or kill
        errno = kept;
        return;
    }
    errno = kept;
    if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
    sigaction(number, &before, nullptr);  // what failed is tried again, and ends the process as it would without this handler
    if (info->si_code <= 0 && before.sa_handler == SIG_DFL) raise(number);
}

// Makes the handler the first one to be asked, before those that others installed meanwhile.
void install() {
    struct sigaction now;
    if (sigaction(SIGBUS, nullptr, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle)) return;
    before = now;
    struct sigaction own = {};
    own.sa_sigaction = handle;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&own.sa_mask);
    sigaction(SIGBUS, &own, nullptr);
}

Range& taken(uintptr_t begin, uintptr_t end) {
    const std::lock_guard<std::mutex> locked(changing);
    install();
    for (Range& range : ranges) {
        if (range.begin.load() != 0) continue;
        range.damaged.store(false);
        range.end.store(end);
        range.begin.store(begin);
        return range;
    }
    throw nb::value_error("this process has mapped 4,096 files");
}

[[noreturn]] void refuse() {
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

class Mapping {
  public:
    Mapping(int descriptor, size_t size, const std::vector<int>& advices) : size_(size) {
        if (size == 0) throw nb::value_error("a mapped file has bytes");
        descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
        if (descriptor_ < 0) refuse();
        data_ = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
        if (data_ == MAP_FAILED) {
            const int problem = errno;
            close(descriptor_);
            errno = problem;
            refuse();
        }
        const auto begin = reinterpret_cast<uintptr_t>(data_);
        try {
            range_ = &taken(begin, begin + (size + page_bytes - 1) / page_bytes * page_bytes);
        } catch (...) {
            munmap(data_, size);
            close(descriptor_);
            throw;
        }
        for (int advice : advices) madvise(data_, size, advice);  // where the system does not know it, pages are as they are
    }

    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    ~Mapping() {
        {
            const std::lock_guard<std::mutex> locked(changing);
            range_->begin.store(0);
        }
        munmap(data_, size_);
        close(descriptor_);
    }

    bool cut_off() const {
        struct stat found;
        return range_->damaged.load() || fstat(descriptor_, &found) != 0 || static_cast<size_t>(found.st_size) < size_;
    }

    static int view(PyObject* self, Py_buffer* to, int flags) noexcept {
        const auto* mapping = nb::inst_ptr<Mapping>(self);
        return PyBuffer_FillInfo(to, self, mapping->data_, static_cast<Py_ssize_t>(mapping->size_), 1, flags);
    }

  private:
    size_t size_;
    int descriptor_ = -1;
    void* data_ = nullptr;
    Range* range_ = nullptr;
};

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&Mapping::view)}, {0, nullptr}};

}  // namespace

}  // namespace xpsql

NB_MODULE(_mapping, module) {
    using namespace nb::literals;
    module.doc() = "Files that are mapped to be read, and that may be cut off meanwhile.";
    xpsql::page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    nb::class_<xpsql::Mapping>(module, "Mapping", nb::type_slots(xpsql::slots))
        .def(nb::init<int, size_t, const std::vector<int>&>(), "descriptor"_a, "size"_a, "advices"_a)
        .def_prop_ro("cut_off", &xpsql::Mapping::cut_off);
}
