// Requests of HTTP/1.1 at a constant rate, each timed from when it was due: one that waits for those before it counts as late.
//
//     load PORT CONNECTIONS RATE SECONDS REQUESTS
//
// REQUESTS is a file of whole requests, sent in turn, each after its uint32 length. RATE is of requests a second; with 0 each
// connection sends its next one when the one before is answered, and is timed from then. A request that is due takes a connection
// that waits for no answer; where there is none it waits. Written to stdout: float64 seconds of each, in the order of answers.
// Ends with 1 where an answer is not 200, or comes a minute late.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

constexpr double LATEST = 60.0;

double now() {
    timespec at{};
    clock_gettime(CLOCK_MONOTONIC, &at);
    return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "load: %s (%s)\n", what, std::strerror(errno));
    std::exit(1);
}

std::vector<std::string> read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> requests;
    std::uint32_t length = 0;
    while (file.read(reinterpret_cast<char*>(&length), sizeof length)) {
        requests.emplace_back(length, '\0');
        if (!file.read(requests.back().data(), length)) fail("the file of requests is cut off");
    }
    if (requests.empty()) fail("there are no requests");
    return requests;
}

// A connection that has one request under way at most.
struct Connection {
    int socket = -1;
    double due = 0;
    std::string_view unsent{};
    std::string answer{};
    std::size_t whole = 0;  // bytes of the answer, once its head is there

    void send() {
        while (!unsent.empty()) {
            const ssize_t sent = ::send(socket, unsent.data(), unsent.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN) return;  // goes on at the next event: the socket is watched for both
            if (sent < 0) fail("cannot send");
            unsent.remove_prefix(static_cast<std::size_t>(sent));
        }
    }

    // Returns whether the answer is complete.
    bool receive() {
        static char buffer[1 << 16];
        for (;;) {
            const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
            if (got < 0 && errno == EAGAIN) return false;
            if (got <= 0) fail("the service closed a connection");
            answer.append(buffer, static_cast<std::size_t>(got));
            if (!whole) whole = size();
            if (whole && answer.size() >= whole) return true;
        }
    }

    std::size_t size() const {
        const std::size_t head = answer.find("\r\n\r\n");
        if (head == std::string::npos) return 0;
        if (answer.compare(0, 12, "HTTP/1.1 200") != 0) fail(answer.substr(0, 200).c_str());
        for (std::size_t at = 0; at < head; at = answer.find("\r\n", at) + 2)
            if (!strncasecmp(answer.data() + at, "content-length:", 15))
                return head + 4 + std::strtoull(answer.data() + at + 15, nullptr, 10);
        fail("an answer has no Content-Length");
    }
};

int connected(int port) {
    const int made = ::socket(AF_INET, SOCK_STREAM, 0), on = 1, space = 1 << 20;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(made, reinterpret_cast<sockaddr*>(&to), sizeof to)) fail("cannot connect");
    ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(made, SOL_SOCKET, SO_SNDBUF, &space, sizeof space);
    ::fcntl(made, F_SETFL, O_NONBLOCK);
    return made;
}

int main(int count, char** given) {
    if (count < 6) fail("expected PORT CONNECTIONS RATE SECONDS REQUESTS");
    const double rate = std::atof(given[3]), seconds = std::atof(given[4]);
    const auto requests = read(given[5]);
    ::prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    const int events = ::epoll_create1(0);
    std::vector<Connection> all(static_cast<std::size_t>(std::atoi(given[2])));
    std::vector<std::size_t> idle;
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].socket = connected(std::atoi(given[1]));
        epoll_event wanted{};
        wanted.events = EPOLLIN | EPOLLOUT | EPOLLET;
        wanted.data.u64 = i;
        ::epoll_ctl(events, EPOLL_CTL_ADD, all[i].socket, &wanted);
        idle.push_back(i);
    }
    const double begin = now() + 0.05;
    const auto total = static_cast<std::size_t>(rate * seconds);
    std::size_t begun = 0, answered = 0;
    std::vector<double> taken;
    std::vector<epoll_event> happened(all.size());
    for (;;) {
        double at = now();
        const bool over = rate > 0 ? begun == total : at >= begin + seconds;
        if (over && idle.size() == all.size()) break;
        double next = at + 1;
        while (!over && !idle.empty() && (rate <= 0 || begun < total)) {
            const double due = rate > 0 ? begin + static_cast<double>(begun) / rate : at;
            if (due > at) {
                next = due;
                break;
            }
            Connection& one = all[idle.back()];
            idle.pop_back();
            one.due = due;
            one.unsent = requests[begun++ % requests.size()];
            one.send();
        }
        const double wait = next > at ? next - at : 0;
        const timespec until{static_cast<time_t>(wait), static_cast<long>((wait - static_cast<double>(static_cast<time_t>(wait))) * 1e9)};
        const int ready = ::epoll_pwait2(events, happened.data(), static_cast<int>(happened.size()), &until, nullptr);
        at = now();
        for (int i = 0; i < ready; ++i) {
            Connection& one = all[happened[static_cast<std::size_t>(i)].data.u64];
            if (happened[static_cast<std::size_t>(i)].events & EPOLLOUT) one.send();
            if (!(happened[static_cast<std::size_t>(i)].events & EPOLLIN) || !one.receive()) continue;
            taken.push_back(now() - one.due);
            one.answer.clear();
            one.whole = 0;
            idle.push_back(static_cast<std::size_t>(happened[static_cast<std::size_t>(i)].data.u64));
            ++answered;
        }
        if (rate > 0 && at > begin + seconds + LATEST) fail("answers are a minute late");
    }
    std::fwrite(taken.data(), sizeof(double), taken.size(), stdout);
    std::fprintf(stderr, "%zu answered; the client used %.3f CPU s\n", answered,
                 static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
}
