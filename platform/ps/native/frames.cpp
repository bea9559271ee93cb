// Cuts what a connection receives into frames; platform/ps/wire.py specifies them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace xpsql {

namespace {

constexpr size_t stage_bytes = 8192;
constexpr size_t last_status = 2;

struct Header {
    static constexpr size_t bytes = 48, kind_bytes = 16;
    char magic[4];
    uint16_t version, status;
    uint32_t checksum, contents_bytes;
    uint64_t body_bytes, request;
    char kind[kind_bytes];

    uint64_t rest_bytes() const { return (uint64_t{contents_bytes} + 63) / 64 * 64 + body_bytes; }
};
static_assert(sizeof(Header) == Header::bytes, "a header is read from its bytes, so it must have no gaps");

// Short frames come through a stage, several at once if they are there; the rest of a long one goes straight into memory of its
// own, which is taken after its header has been checked.
class Frames {
  public:
    Frames(nb::object frame, nb::object error, const std::string& magic, uint16_t version, uint64_t most_contents, uint64_t most_body)
        : frame_(std::move(frame)), error_(std::move(error)), empty_(nb::module_::import_("numpy").attr("empty")),
          uint8_(nb::module_::import_("numpy").attr("uint8")), magic_(magic), version_(version), most_contents_(most_contents),
          most_body_(most_body), stage_(stage_bytes) {
        if (magic.size() != sizeof(Header::magic)) throw nb::value_error("a magic word has four bytes");
    }

    bool between() const { return !content_.is_valid() && begin_ == end_; }
    bool is_long() const { return content_.is_valid(); }

    // Where the next bytes belong.
    nb::object room() {
        if (content_.is_valid()) return memory(data_ + filled_, header_.rest_bytes() - filled_);
        std::memmove(stage_.data(), stage_.data() + begin_, end_ - begin_);
        end_ -= std::exchange(begin_, 0);
        return memory(stage_.data() + end_, stage_.size() - end_);
    }

    // Counts bytes that have come, and returns the next complete frame or None.
    nb::object take(size_t count) {
        if (count > (content_.is_valid() ? header_.rest_bytes() - filled_ : stage_.size() - end_))
            throw nb::value_error("more bytes than there was room for");
        (content_.is_valid() ? filled_ : end_) += count;
        if (!content_.is_valid()) {
            if (end_ - begin_ < Header::bytes) return nb::none();
            std::memcpy(&header_, stage_.data() + begin_, Header::bytes);
            check();
            begin_ += Header::bytes;
            start();
        }
        if (filled_ < header_.rest_bytes()) return nb::none();
        const nb::object items = nb::make_tuple(header_.status, header_.checksum, header_.contents_bytes, header_.request,
                                                nb::bytes(header_.kind, Header::kind_bytes), content_);
        content_.reset();
        return stolen(PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(frame_.ptr()), nb::make_tuple(items).ptr(), nullptr));
    }

  private:
    static nb::object stolen(PyObject* made) {
        if (made == nullptr) throw nb::python_error();
        return nb::steal(made);
    }

    static nb::object memory(uint8_t* data, size_t size) {
        return stolen(PyMemoryView_FromMemory(reinterpret_cast<char*>(data), static_cast<Py_ssize_t>(size), PyBUF_WRITE));
    }

    // Takes memory for the frame and moves what is there of it.
    void start() {
        const size_t size = header_.rest_bytes();
        content_ = empty_(size, uint8_);
        Py_buffer view;
        if (PyObject_GetBuffer(content_.ptr(), &view, PyBUF_WRITABLE) < 0) {
            content_.reset();
            throw nb::python_error();
        }
        data_ = static_cast<uint8_t*>(view.buf);
        PyBuffer_Release(&view);  // content_ keeps the memory, and nobody else resizes it
        filled_ = std::min(size, end_ - begin_);
        std::memcpy(data_, stage_.data() + begin_, filled_);
        begin_ += filled_;
    }

    void check() const {
        if (std::memcmp(header_.magic, magic_.data(), sizeof(header_.magic)) != 0)
            refuse("expected a frame, which starts with " + repr(magic_.data()) + ", got " + repr(header_.magic));
        if (header_.version != version_)
            refuse("expected version " + std::to_string(version_) + " of the protocol, got " + std::to_string(header_.version) +
                   "; use one version of xpsql everywhere");
        if (header_.status > last_status) refuse("a frame has the unknown status " + std::to_string(header_.status));
        if (header_.contents_bytes > most_contents_ || header_.body_bytes > most_body_)
            refuse("a frame announces " + std::to_string(header_.contents_bytes) + " + " + std::to_string(header_.body_bytes) +
                   " bytes, the limits are " + std::to_string(most_contents_) + " + " + std::to_string(most_body_) +
                   "; use smaller batches");
    }

    static std::string repr(const char* magic) { return nb::repr(nb::bytes(magic, sizeof(Header::magic))).c_str(); }

    [[noreturn]] void refuse(const std::string& reason) const {
        PyErr_SetString(error_.ptr(), reason.c_str());
        throw nb::python_error();
    }

    nb::object frame_, error_, empty_, uint8_;
    std::string magic_;
    uint16_t version_;
    uint64_t most_contents_, most_body_;
    std::vector<uint8_t> stage_;
    size_t begin_ = 0, end_ = 0;
    Header header_{};
    nb::object content_;
    uint8_t* data_ = nullptr;
    size_t filled_ = 0;
};

}  // namespace

void bind_frames(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Frames>(module, "Frames")
        .def("__init__",
             [](Frames* self, nb::object frame, nb::object error, const nb::bytes& magic, uint16_t version, uint64_t most_contents,
                uint64_t most_body) {
                 new (self) Frames(std::move(frame), std::move(error), std::string(magic.c_str(), magic.size()), version,
                                   most_contents, most_body);
             },
             "frame"_a, "error"_a, "magic"_a, "version"_a, "most_contents"_a, "most_body"_a)
        .def_prop_ro("is_between", &Frames::between)
        .def_prop_ro("is_long", &Frames::is_long)
        .def("room", &Frames::room)
        .def("take", &Frames::take, "count"_a);
}

}  // namespace xpsql
