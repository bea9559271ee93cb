// Work in parts, which the thread that has it shares with others that are free.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace xpsql {

// One piece of work, in parts 0 to `parts`. Whoever works on it takes the next part: a thread that comes late does less, and
// nobody waits for one that does not come. Those that come later still may look at a job whose owner has gone.
class Job {
  public:
    Job(size_t parts, std::function<void(size_t)> act) : parts_(parts), act_(std::move(act)) {}

    size_t left() const { return parts_ - std::min(parts_, next_.load(std::memory_order_relaxed)); }

    void work() {
        for (size_t part; (part = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;) {
            try {
                act_(part);
            } catch (...) {
                const std::lock_guard locked(mutex_);
                error_ = std::current_exception();
            }
            done_.fetch_add(1, std::memory_order_release);
        }
    }

    // Waits for the parts that others have begun. Throws what a part has thrown.
    void finish() {
        while (done_.load(std::memory_order_acquire) < parts_) std::this_thread::yield();
        if (error_) std::rethrow_exception(error_);
    }

  private:
    const size_t parts_;
    const std::function<void(size_t)> act_;
    std::atomic<size_t> next_{0}, done_{0};
    std::mutex mutex_;
    std::exception_ptr error_;
};

// The threads of this process that help. They are started when they are first needed, and a team is never destroyed: they end
// with the process. A process that was forked has none, and works alone.
class Team {
  public:
    static Team& get() {
        static Team* const team = new Team;
        return *team;
    }

    // How many threads are to work on a job, its owner included; 1: nobody helps, whoever was started for more.
    void set_threads(size_t threads) { threads_ = std::max<size_t>(threads, 1); }
    size_t threads() const { return threads_; }

    // Lets a helper call act() some time, and does not wait for it; it must not throw. Without helpers it is not called.
    void post(const std::function<void()>& act) {
        if (threads_ > 1) share(std::make_shared<Job>(1, [act](size_t) { act(); }));
    }

    // Calls act(part) for each of so many parts, in any order and on any thread, and returns when all are done. Throws what one
    // of them has thrown.
    void run(size_t parts, const std::function<void(size_t)>& act) {
        if (parts < 2 || threads_ < 2) {
            for (size_t part = 0; part < parts; ++part) act(part);
            return;
        }
        const auto job = std::make_shared<Job>(parts, act);
        share(job);
        job->work();
        forget(job);
        job->finish();
    }

  private:
    void share(const std::shared_ptr<Job>& job) {
        {
            const std::lock_guard locked(mutex_);
            start_helpers();
            jobs_.push_back(job);
        }
        called_.notify_one();
    }

    void start_helpers() {
        try {
            for (; helpers_ + 1 < threads_; ++helpers_) std::thread([this] { help(); }).detach();
        } catch (const std::system_error&) {
            threads_ = helpers_ + 1;  // the system gives no more
        }
    }

    // A helper that comes wakes the next one, which takes the owner no time.
    void help() {
        while (true) {
            std::unique_lock locked(mutex_);
            called_.wait(locked, [this] { return !jobs_.empty(); });
            const std::shared_ptr<Job> job = jobs_.front();
            locked.unlock();
            if (job->left() > 1) called_.notify_one();
            job->work();
            forget(job);
        }
    }

    // Of a job whose parts have all begun.
    void forget(const std::shared_ptr<Job>& job) {
        const std::lock_guard locked(mutex_);
        jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
    }

    std::atomic<size_t> threads_{1};
    std::mutex mutex_;
    std::condition_variable called_;
    std::vector<std::shared_ptr<Job>> jobs_;
    size_t helpers_ = 0;
};

// Calls act(begin, end) for runs of `size` items, n in all, as Team::run does.
template <class Act>
void in_runs(size_t n, size_t size, Act act) {
    Team::get().run((n + size - 1) / size, [&](size_t part) { act(part * size, std::min(n, (part + 1) * size)); });
}

// The same for items that do not depend on each other and cost little: in one run where nobody helps, or they are few.
template <class Act>
void in_pieces(size_t n, size_t size, Act act) {
    if (n < 2 * size || Team::get().threads() < 2) return act(size_t{0}, n);
    in_runs(n, size, act);
}

}  // namespace xpsql
