// Frames through a connection; platform/ps/transport/wire.py specifies them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "codec.hpp"

namespace xpsql {

namespace {

constexpr size_t stage_bytes = 8192;
constexpr size_t pieces_per_call = 512;  // below what every system takes
constexpr size_t last_status = 2;
#ifdef MSG_NOSIGNAL
constexpr int quietly = MSG_NOSIGNAL;
#else
constexpr int quietly = 0;
#endif

struct Header {
    static constexpr size_t bytes = 48, kind_bytes = 16;
    char magic[4];
    uint16_t version, status;
    uint32_t checksum, contents_bytes;
    uint64_t body_bytes, request;
    char kind[kind_bytes];

    uint64_t rest_bytes() const { return aligned(uint64_t{contents_bytes}) + body_bytes; }
};
static_assert(sizeof(Header) == Header::bytes, "a header is read from its bytes, so it must have no gaps");

// What follows the header of a received frame. It starts where XLA wants arrays to.
class Memory {
  public:
    explicit Memory(size_t size)
        : data_(allocate_aligned<uint8_t>(size)), size_(size) {}

    uint8_t* data() const { return data_.get(); }

    static int view(PyObject* self, Py_buffer* to, int flags) noexcept {
        const auto* memory = nb::inst_ptr<Memory>(self);
        return PyBuffer_FillInfo(to, self, memory->data(), static_cast<Py_ssize_t>(memory->size_), 0, flags);
    }

  private:
    std::unique_ptr<uint8_t[], AlignedDelete> data_;
    size_t size_;
};

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&Memory::view)}, {0, nullptr}};

struct Frame {
    Header header;
    nb::object rest;
};

[[noreturn]] void refuse(int reason) {
    errno = reason;
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

// Calls the system without the GIL and returns how many bytes it moved; nothing if it cannot now, or a signal came.
template <class Call>
std::optional<size_t> moved(Call call) {
    ssize_t count;
    int reason;
    {
        nb::gil_scoped_release release;
        count = call();
        reason = errno;
    }
    if (count >= 0) return static_cast<size_t>(count);
    if (reason == EAGAIN || reason == EWOULDBLOCK) return std::nullopt;
    if (reason != EINTR) refuse(reason);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return std::nullopt;
}

// A frame on its way out: its head and the arrays' own memory, with zeros between.
class Outgoing {
  public:
    Outgoing(const Schema& schema, const nb::bytes& head, uint64_t request, nb::handle message)
        : written_(schema.write(message, std::string(head.c_str(), head.size()))) {
        if (head.size() != Header::bytes) throw nb::value_error("a header has 48 bytes");
        auto header = reinterpret_cast<Header*>(written_.head.data());
        header->contents_bytes = static_cast<uint32_t>(written_.contents_bytes);
        header->body_bytes = written_.body_bytes;
        header->request = request;
        add(written_.head.data(), written_.head.size());
        for (const View& array : written_.arrays) {
            add(array.data(), array.size());
            add(zeros, aligned(array.size()) - array.size());
        }
    }

    Outgoing(const Outgoing&) = delete;  // its pieces point into it

    size_t left() const { return left_; }

    // Sends what the socket takes in one call; tells whether all has gone.
    bool send(int descriptor, int flags) {
        msghdr message{};
        message.msg_iov = pieces_.data() + first_;
        message.msg_iovlen = std::min(pieces_.size() - first_, pieces_per_call);
        gone(moved([&] { return sendmsg(descriptor, &message, flags | quietly); }).value_or(0));
        return left_ == 0;
    }

    void gone(size_t count) {
        if (count > left_) throw nb::value_error("more bytes than there were");
        left_ -= count;
        while (first_ < pieces_.size() && count >= pieces_[first_].iov_len) count -= pieces_[first_++].iov_len;
        if (count == 0) return;
        pieces_[first_].iov_base = static_cast<char*>(pieces_[first_].iov_base) + count;
        pieces_[first_].iov_len -= count;
    }

    // The next bytes, at most so many.
    nb::bytes next(size_t most) const {
        std::string joined;
        for (size_t i = first_; i < pieces_.size() && joined.size() < most; ++i)
            joined.append(static_cast<const char*>(pieces_[i].iov_base), std::min(pieces_[i].iov_len, most - joined.size()));
        return nb::bytes(joined.data(), joined.size());
    }

  private:
    void add(const void* data, size_t size) {
        if (size == 0) return;
        pieces_.push_back({const_cast<void*>(data), size});
        left_ += size;
    }

    Written written_;
    std::vector<iovec> pieces_;
    size_t first_ = 0, left_ = 0;
};

// Cuts what a connection receives into frames. Short ones come through a stage, several at once if they are there; the rest of a
// long one goes straight into memory of its own, which is taken after its header has been checked.
class Frames {
  public:
    Frames(nb::object error, const nb::bytes& magic, uint16_t version, uint64_t most_contents, uint64_t most_body)
        : error_(std::move(error)), magic_(magic.c_str(), magic.size()), version_(version), most_contents_(most_contents),
          most_body_(most_body), stage_(stage_bytes) {
        if (magic_.size() != sizeof(Header::magic)) throw nb::value_error("a magic word has four bytes");
    }

    bool between() const { return memory_ == nullptr && begin_ == end_; }

    // Where the next bytes belong.
    std::pair<uint8_t*, size_t> room() {
        if (memory_ != nullptr) return {memory_->data() + filled_, header_.rest_bytes() - filled_};
        std::memmove(stage_.data(), stage_.data() + begin_, end_ - begin_);
        end_ -= std::exchange(begin_, 0);
        return {stage_.data() + end_, stage_.size() - end_};
    }

    // Counts bytes that have come, and returns the next complete frame or None.
    nb::object take(size_t count) {
        if (count > (memory_ != nullptr ? header_.rest_bytes() - filled_ : stage_.size() - end_))
            throw nb::value_error("more bytes than there was room for");
        (memory_ != nullptr ? filled_ : end_) += count;
        if (memory_ == nullptr) {
            if (end_ - begin_ < Header::bytes) return nb::none();
            std::memcpy(&header_, stage_.data() + begin_, Header::bytes);
            check();
            begin_ += Header::bytes;
            start();
        }
        if (filled_ < header_.rest_bytes()) return nb::none();
        memory_ = nullptr;
        return nb::cast(Frame{header_, std::move(rest_)});
    }

    bool is_long() const { return memory_ != nullptr; }

  private:
    // Takes memory for the frame and moves what is there of it.
    void start() {
        const size_t size = header_.rest_bytes();
        rest_ = nb::cast(Memory(size));
        memory_ = nb::inst_ptr<Memory>(rest_);
        filled_ = std::min(size, end_ - begin_);
        std::memcpy(memory_->data(), stage_.data() + begin_, filled_);
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

    nb::object error_;
    std::string magic_;
    uint16_t version_;
    uint64_t most_contents_, most_body_;
    std::vector<uint8_t> stage_;
    size_t begin_ = 0, end_ = 0;
    Header header_{};
    nb::object rest_;
    Memory* memory_ = nullptr;  // rest_'s, while it is being filled
    size_t filled_ = 0;
};

// Frames through a blocking socket without TLS. The kernel bounds waits, so that a short frame is one call each way.
class Channel {
  public:
    Channel(int descriptor, Frames& frames) : descriptor_(descriptor), frames_(frames) {}

    bool send(Outgoing& frame, double seconds) {
        return frame.send(descriptor_, waiting(SO_SNDTIMEO, send_seconds_, seconds));
    }

    // The next frame, None if it is not there in time or the other end has closed; the rest of a long one is waited for, too.
    nb::object receive(double seconds) {
        nb::object frame = frames_.take(0);
        if (!frame.is_none()) return frame;
        const int flags = waiting(SO_RCVTIMEO, receive_seconds_, seconds), whole = flags | (seconds > 0 ? MSG_WAITALL : 0);
        const bool was_long = frames_.is_long();
        frame = received(was_long ? whole : flags);
        return frame.is_none() && frames_.is_long() && !was_long ? received(whole) : frame;
    }

    bool over() const { return over_; }
    bool between() const { return frames_.between(); }

  private:
    nb::object received(int flags) {
        const auto room = frames_.room();
        const auto count = moved([&] { return recv(descriptor_, room.first, room.second, flags); });
        over_ = count == size_t{0};
        return frames_.take(count.value_or(0));
    }

    // The flags of a call that takes no longer; tells the kernel where it waits otherwise, in whole seconds if it is more than
    // one, since what is left of a time changes from call to call.
    int waiting(int option, double& known, double seconds) const {
        if (seconds <= 0) return MSG_DONTWAIT;
        const double bound = seconds > 1 ? std::ceil(seconds) : std::max(seconds, 1e-3);  // zero would be forever
        if (bound == known) return 0;
        timeval time{};
        time.tv_sec = static_cast<time_t>(bound);
        time.tv_usec = static_cast<suseconds_t>((bound - std::floor(bound)) * 1e6);
        if (setsockopt(descriptor_, SOL_SOCKET, option, &time, sizeof(time)) < 0) refuse(errno);
        known = bound;
        return 0;
    }

    int descriptor_;
    Frames& frames_;
    double send_seconds_ = 0, receive_seconds_ = 0;
    bool over_ = false;
};

}  // namespace

void bind_frames(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots));
    nb::class_<Frame>(module, "Frame")
        .def_prop_ro("status", [](const Frame& frame) { return frame.header.status; })
        .def_prop_ro("checksum", [](const Frame& frame) { return frame.header.checksum; })
        .def_prop_ro("contents_bytes", [](const Frame& frame) { return frame.header.contents_bytes; })
        .def_prop_ro("request", [](const Frame& frame) { return frame.header.request; })
        .def_prop_ro("kind", [](const Frame& frame) { return nb::bytes(frame.header.kind, Header::kind_bytes); })
        .def_ro("rest", &Frame::rest);
    nb::class_<Outgoing>(module, "Outgoing")
        .def(nb::init<const Schema&, const nb::bytes&, uint64_t, nb::handle>(), "schema"_a, "head"_a, "request"_a, "message"_a)
        .def_prop_ro("left", &Outgoing::left)
        .def("next", &Outgoing::next, "most"_a)
        .def("gone", &Outgoing::gone, "count"_a);
    nb::class_<Frames>(module, "Frames")
        .def(nb::init<nb::object, const nb::bytes&, uint16_t, uint64_t, uint64_t>(), "error"_a, "magic"_a, "version"_a,
             "most_contents"_a, "most_body"_a)
        .def_prop_ro("is_between", &Frames::between)
        .def("room",
             [](Frames& frames) {
                 const auto [data, size] = frames.room();
                 return checked(PyMemoryView_FromMemory(reinterpret_cast<char*>(data), static_cast<Py_ssize_t>(size), PyBUF_WRITE));
             })
        .def("take", &Frames::take, "count"_a);
    nb::class_<Channel>(module, "Channel")
        .def(nb::init<int, Frames&>(), nb::keep_alive<1, 3>(), "descriptor"_a, "frames"_a)
        .def_prop_ro("is_between", &Channel::between)
        .def_prop_ro("is_over", &Channel::over)
        .def("send", &Channel::send, "frame"_a, "seconds"_a)
        .def("receive", &Channel::receive, "seconds"_a);
}

}  // namespace xpsql
