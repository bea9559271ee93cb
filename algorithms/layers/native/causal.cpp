// The same in JAX is algorithms/layers/causal_attention.py.
#include "causal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "buffers.hpp"
#include "parallel.hpp"
#include "projection.hpp"
#include "sigmoid.hpp"
#include "wide.hpp"

namespace ffi = xla::ffi;

namespace xpsql {

namespace {

constexpr size_t tile = 16;  // events whose scores are computed together; a multiple of every block
constexpr float never = -1e9f;
constexpr size_t buckets = 128;
constexpr float bucket = 0.301f;

// The bias of SiLU: by place and by the bucket of the time between; none: softmax. Gradients are of one strip.
struct Bias {
    const float *place, *time;
    const int32_t *at, *when, *seconds;
    size_t places;
    float *by_place, *by_time;
};

// Strips of cells: q, k and v are float32[strips, length, heads, width]; low and high int32[strips, length], what each cell sees.
struct Strips {
    size_t strips, length, heads, width;
    const float *q, *k, *v;
    const int32_t *low, *high;
    Bias bias;
    float *seen, *total;                            // forward: [strips, length, heads, width], and [strips, length, heads]
    const float *was, *was_total, *outer, *of_total;  // backward: these, and their gradients
    float *by_q, *by_k, *by_v;
};

// The least number of seconds of each bucket.
const std::vector<int64_t>& least_seconds() {
    static const std::vector<int64_t> found = [] {
        std::vector<int64_t> least(buckets + 1, std::numeric_limits<int64_t>::max());
        for (size_t b = 0; b < buckets; ++b) {
            int64_t low = 0, high = int64_t{1} << 32;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                const float seconds = float(std::max<int64_t>(1, middle));
                if (std::log(seconds) / bucket >= float(b)) high = middle;
                else low = middle + 1;
            }
            if (low < int64_t{1} << 32) least[b] = low;
        }
        least[0] = std::numeric_limits<int64_t>::min();
        return least;
    }();
    return found;
}

template <class Lane>
class Strip : Lanes<Lane> {
  public:
    static constexpr size_t lane = sizeof(Lane) / sizeof(float);
    static constexpr size_t pair = 2 * lane;
    static constexpr size_t block = lane == 16 ? 8 : 4;  // rows of a product whose sums stay in registers, two lanes of each
    using F = Functions<Lane>;

    XPSQL_INLINE Strip(const Strips& all, size_t strip, bool back, const std::vector<int64_t>& least)
        : all_(all), first_(strip * all.length), rows_((all.length + pair - 1) / pair * pair), least_(least),
          wide_((all.width + pair - 1) / pair * pair), softmax_(!all.bias.place), back_(back) {
        const size_t matrix = rows_ * wide_, kept = back ? 8 : 3;
        float* at = projection::scratch(all.heads * kept * matrix + 5 * tile * rows_ + tile * wide_);
        matrices_ = at;
        at += all.heads * kept * matrix;
        std::memset(matrices_, 0, all.heads * kept * matrix * sizeof(float));
        for (float** own : {&scores_, &by_, &bias_, &sum_, &rise_}) *own = at, at += tile * rows_;
        found_ = at;
        for (size_t h = 0; h < all.heads; ++h) fill(h);
    }

    XPSQL_INLINE void forward() {
        for (size_t begin = 0; begin < all_.length; begin += tile) {
            if (!look(begin)) {
                for (size_t i = begin; i < end(begin); ++i) nothing(i);
                continue;
            }
            for (size_t h = 0; h < all_.heads; ++h) {
                weigh(h, begin, nullptr);
                multiply(tile, wide_, high_ - low_, scores_ + low_, rows_, 1, of(h, values) + low_ * wide_, wide_, found_, wide_, false);
                for (size_t i = begin; i < end(begin); ++i)
                    std::memcpy(all_.seen + at(i, h), found_ + (i - begin) * wide_, all_.width * sizeof(float));
            }
        }
    }

    XPSQL_INLINE void backward() {
        for (size_t begin = 0; begin < all_.length; begin += tile) {
            if (!look(begin)) continue;
            if (!softmax_) std::memset(sum_, 0, tile * rows_ * sizeof(float));
            for (size_t h = 0; h < all_.heads; ++h) backward(h, begin);
            if (!softmax_) by_bias(begin);
        }
        for (size_t h = 0; h < all_.heads; ++h)
            for (size_t i = 0; i < all_.length; ++i) {
                std::memcpy(all_.by_q + at(i, h), of(h, by_query) + i * wide_, all_.width * sizeof(float));
                std::memcpy(all_.by_k + at(i, h), of(h, by_key) + i * wide_, all_.width * sizeof(float));
                std::memcpy(all_.by_v + at(i, h), of(h, by_value) + i * wide_, all_.width * sizeof(float));
            }
    }

  private:
    using Lanes<Lane>::load;
    using Lanes<Lane>::store;
    // Matrices of a head: [rows, wide], and turned ones [wide, rows].
    enum Matrix { query, turned_keys, values, turned_values, keys, by_query, by_key, by_value };

    float* of(size_t head, Matrix which) const { return matrices_ + (head * (back_ ? 8 : 3) + which) * rows_ * wide_; }
    size_t at(size_t cell, size_t head) const { return ((first_ + cell) * all_.heads + head) * all_.width; }
    size_t end(size_t begin) const { return std::min(begin + tile, all_.length); }
    float scale() const { return softmax_ ? 1 / std::sqrt(float(all_.width)) : 1; }

    XPSQL_INLINE void fill(size_t h) {
        const float by = scale();
        for (size_t i = 0; i < all_.length; ++i) {
            const float *const q = all_.q + at(i, h), *const k = all_.k + at(i, h), *const v = all_.v + at(i, h);
            for (size_t e = 0; e < all_.width; ++e) {
                of(h, query)[i * wide_ + e] = by * q[e];
                of(h, values)[i * wide_ + e] = v[e];
                of(h, turned_keys)[e * rows_ + i] = k[e];
                if (!back_) continue;
                of(h, keys)[i * wide_ + e] = k[e];
                of(h, turned_values)[e * rows_ + i] = v[e];
            }
        }
    }

    // Takes up a tile: which cells it sees, and its biases. Returns whether it sees any.
    XPSQL_INLINE bool look(size_t begin) {
        size_t low = all_.length, high = 0;
        for (size_t i = begin; i < end(begin); ++i) {
            const size_t from = begins(i), to = ends(i);
            if (from < to) low = std::min(low, from), high = std::max(high, to);
        }
        if (low >= high) return false;
        low_ = low / pair * pair, high_ = (high + pair - 1) / pair * pair;
        if (softmax_) return true;
        for (size_t i = begin; i < end(begin); ++i) biases(i, bias_ + (i - begin) * rows_);
        return true;
    }

    size_t begins(size_t cell) const { return size_t(std::max(0, all_.low[first_ + cell])); }
    size_t ends(size_t cell) const { return std::min(all_.length, size_t(std::max(0, all_.high[first_ + cell]))); }

    // Calls act(cell, its place in the bias by place, its bucket) for what a cell sees, the newest first.
    template <class Act>
    XPSQL_INLINE void walk(size_t i, Act act) {
        const Bias& bias = all_.bias;
        const int64_t when = bias.when[first_ + i], stands = bias.at[first_ + i], most = int64_t(bias.places) - 1;
        size_t b = 0;
        for (size_t j = ends(i); j-- > begins(i);) {
            const int64_t ago = when - bias.seconds[first_ + j];
            while (ago >= least_[b + 1]) ++b;
            while (ago < least_[b]) --b;
            act(j, size_t(std::clamp<int64_t>(stands - int64_t(j), 0, most)), b);
        }
    }

    XPSQL_INLINE void biases(size_t i, float* to) {
        const Bias& bias = all_.bias;
        walk(i, [&](size_t j, size_t place, size_t b) XPSQL_INLINED { to[j] = bias.place[place] + bias.time[b]; });
    }

    XPSQL_INLINE void by_bias(size_t begin) {
        const Bias& bias = all_.bias;
        for (size_t i = begin; i < end(begin); ++i) {
            const float* const own = sum_ + (i - begin) * rows_;
            size_t last = 0;
            float run = 0;
            walk(i, [&](size_t j, size_t place, size_t b) XPSQL_INLINED {
                bias.by_place[place] += own[j];
                if (b != last) bias.by_time[last] += run, run = 0, last = b;
                run += own[j];
            });
            bias.by_time[last] += run;
        }
    }

    // scores_ becomes what each cell of a tile weighs of what it sees, and rise_, where it is asked for, how fast a weight rises.
    XPSQL_INLINE void weigh(size_t h, size_t begin, float* rise) {
        multiply(tile, high_ - low_, all_.width, of(h, query) + begin * wide_, wide_, 1, of(h, turned_keys) + low_, rows_, scores_ + low_,
                 rows_, false);
        const Lane zero = Lane{}, limit = zero + 87.0f, by = zero + 1.0f / float(softmax_ ? 1 : all_.bias.places);
        for (size_t i = begin; i < begin + tile; ++i) {
            float* const own = scores_ + (i - begin) * rows_;
            const size_t from = i < all_.length ? begins(i) : 0, to = i < all_.length ? ends(i) : 0;
            if (from >= to) {
                std::fill(own + low_, own + high_, 0.0f);
                if (rise) std::fill(rise + (i - begin) * rows_ + low_, rise + (i - begin) * rows_ + high_, 0.0f);
                if (i < all_.length && softmax_ && !back_) all_.total[(first_ + i) * all_.heads + h] = never;
                continue;
            }
            const size_t first = from / lane * lane, past = (to + lane - 1) / lane * lane;
            if (softmax_) {
                float most;
                std::fill(own + first, own + from, never);
                std::fill(own + to, own + past, never);
                if (back_) {
                    most = all_.was_total[(first_ + i) * all_.heads + h];
                } else {
                    Lane best = zero + never;
                    for (size_t j = first; j < past; j += lane) {
                        const Lane score = load(own + j);
                        best = score > best ? score : best;
                    }
                    most = best[0];
                    for (size_t e = 1; e < lane; ++e) most = std::max(most, best[e]);
                }
                for (size_t j = first; j < past; j += lane) {
                    Lane score = load(own + j) - most;
                    score = score < -limit ? -limit : score;
                    store(own + j, F::exponential(score > limit ? limit : score));
                }
                std::fill(own + first, own + from, 0.0f);
                std::fill(own + to, own + past, 0.0f);
                if (!back_) {
                    float total = 0;
                    Lane sum = zero;
                    for (size_t j = first; j < past; j += lane) sum += load(own + j);
                    for (size_t e = 0; e < lane; ++e) total += sum[e];
                    const float share = 1 / total;
                    for (size_t j = first; j < past; j += lane) store(own + j, load(own + j) * share);
                    all_.total[(first_ + i) * all_.heads + h] = most + std::log(total);
                }
            } else {
                const float* const bias = bias_ + (i - begin) * rows_;
                float* const faster = rise ? rise + (i - begin) * rows_ : nullptr;
                for (size_t j = first; j < past; j += lane) {
                    const Lane score = load(own + j) + load(bias + j), share = F::sigmoid(score);
                    store(own + j, score * share * by);
                    if (rise) store(faster + j, share * (1.0f + score * (1.0f - share)) * by);
                }
                std::fill(own + first, own + from, 0.0f);
                std::fill(own + to, own + past, 0.0f);
            }
            std::fill(own + low_, own + first, 0.0f);
            std::fill(own + past, own + high_, 0.0f);
        }
    }

    XPSQL_INLINE void nothing(size_t i) {
        for (size_t h = 0; h < all_.heads; ++h) {
            std::memset(all_.seen + at(i, h), 0, all_.width * sizeof(float));
            if (softmax_) all_.total[(first_ + i) * all_.heads + h] = never;
        }
    }

    XPSQL_INLINE void backward(size_t h, size_t begin) {
        weigh(h, begin, softmax_ ? nullptr : rise_);
        std::memset(found_, 0, tile * wide_ * sizeof(float));
        for (size_t i = begin; i < end(begin); ++i)
            std::memcpy(found_ + (i - begin) * wide_, all_.outer + at(i, h), all_.width * sizeof(float));
        multiply(tile, high_ - low_, all_.width, found_, wide_, 1, of(h, turned_values) + low_, rows_, by_ + low_, rows_, false);
        for (size_t i = begin; i < begin + tile; ++i) {
            float* const own = by_ + (i - begin) * rows_;
            const size_t from = i < all_.length ? begins(i) : 0, to = i < all_.length ? ends(i) : 0;
            if (from >= to) {
                std::fill(own + low_, own + high_, 0.0f);
                continue;
            }
            const size_t first = from / lane * lane, past = (to + lane - 1) / lane * lane;
            if (softmax_) {
                const float* const weights = scores_ + (i - begin) * rows_;
                float mean = -all_.of_total[(first_ + i) * all_.heads + h];
                for (size_t e = 0; e < all_.width; ++e) mean += all_.was[at(i, h) + e] * all_.outer[at(i, h) + e];
                for (size_t j = first; j < past; j += lane) store(own + j, load(weights + j) * (load(own + j) - mean));
            } else {
                const float* const faster = rise_ + (i - begin) * rows_;
                float* const sum = sum_ + (i - begin) * rows_;
                for (size_t j = first; j < past; j += lane) store(own + j, load(own + j) * load(faster + j));
                std::fill(own + first, own + from, 0.0f);
                std::fill(own + to, own + past, 0.0f);
                for (size_t j = first; j < past; j += lane) store(sum + j, load(sum + j) + load(own + j));
            }
            std::fill(own + low_, own + first, 0.0f);
            std::fill(own + past, own + high_, 0.0f);
        }
        const size_t cells = high_ - low_;
        multiply(cells, wide_, tile, scores_ + low_, 1, rows_, found_, wide_, of(h, by_value) + low_ * wide_, wide_, true);
        multiply(cells, wide_, tile, by_ + low_, 1, rows_, of(h, query) + begin * wide_, wide_, of(h, by_key) + low_ * wide_, wide_, true);
        multiply(tile, wide_, cells, by_ + low_, rows_, 1, of(h, keys) + low_ * wide_, wide_, of(h, by_query) + begin * wide_, wide_, false);
        float* const by = of(h, by_query) + begin * wide_;
        for (size_t e = 0; e < tile * wide_; e += lane) store(by + e, load(by + e) * scale());
    }

    // to[r][u], or what is there and, = the sum over k of left[r][k] right[k][u]; rows are a multiple of block, columns of a pair.
    static XPSQL_INLINE void multiply(size_t rows, size_t columns, size_t depth, const float* left, size_t left_row, size_t left_step,
                                      const float* right, size_t right_step, float* to, size_t to_row, bool adds) {
        for (size_t u = 0; u < columns; u += pair)
            for (size_t r = 0; r < rows; r += block) {
                Lane sums[block][2];
                const float* const own = left + r * left_row;
                float* const there = to + r * to_row + u;
                for (size_t i = 0; i < block; ++i)
                    for (size_t n = 0; n < 2; ++n) sums[i][n] = adds ? load(there + i * to_row + n * lane) : Lane{};
                for (size_t k = 0; k < depth; ++k) {
                    const Lane one = load(right + k * right_step + u), other = load(right + k * right_step + u + lane);
                    for (size_t i = 0; i < block; ++i) {
                        const float by = own[i * left_row + k * left_step];
                        sums[i][0] += by * one;
                        sums[i][1] += by * other;
                    }
                }
                for (size_t i = 0; i < block; ++i)
                    for (size_t n = 0; n < 2; ++n) store(there + i * to_row + n * lane, sums[i][n]);
            }
    }

    const Strips& all_;
    const size_t first_, rows_;
    const std::vector<int64_t>& least_;
    const size_t wide_;
    const bool softmax_, back_;
    size_t low_ = 0, high_ = 0;
    float *matrices_, *scores_, *by_, *bias_, *sum_, *rise_, *found_;
};

template <class Lane>
XPSQL_INLINE void compute(const Strips& all, size_t strip, bool back, const std::vector<int64_t>& least) {
    Strip<Lane> own(all, strip, back, least);
    if (back) own.backward();
    else own.forward();
}

#define XPSQL_COMPUTE(name, attributes, Lane)                                                                  \
    attributes void name(const Strips& all, size_t strip, bool back, const std::vector<int64_t>& least) {      \
        compute<Lane>(all, strip, back, least);                                                                \
    }
XPSQL_COMPUTE(runs_anywhere, , Lane32)
XPSQL_COMPUTE(runs_wide, XPSQL_WIDE, Lane32)
XPSQL_COMPUTE(runs_widest, XPSQL_WIDEST, Lane64)

Strips strips_of(const Floats& q, const Floats& k, const Floats& v, const Indices& low, const Indices& high) {
    const auto sizes = q.dimensions();
    Strips all = {};
    all.strips = size_t(sizes[0]), all.length = size_t(sizes[1]), all.heads = size_t(sizes[2]), all.width = size_t(sizes[3]);
    all.q = q.typed_data(), all.k = k.typed_data(), all.v = v.typed_data();
    all.low = low.typed_data(), all.high = high.typed_data();
    return all;
}

// Computes all strips; gradients by biases are summed in the order of strips, whoever computed them.
void compute_all(const Strips& all, bool back, float* by_place, float* by_time) {
    const auto act = widest() ? runs_widest : wide() ? runs_wide : runs_anywhere;
    const std::vector<int64_t>& least = least_seconds();
    const size_t places = all.bias.places, each = by_place ? places + buckets : 0;
    std::vector<float> sums(all.strips * each);
    Team::get().run(all.strips, [&](size_t strip) {
        Strips own = all;
        if (by_place) own.bias.by_place = sums.data() + strip * each, own.bias.by_time = own.bias.by_place + places;
        act(own, strip, back, least);
    });
    if (!by_place) return;
    std::fill(by_place, by_place + places, 0.0f);
    std::fill(by_time, by_time + buckets, 0.0f);
    for (size_t strip = 0; strip < all.strips; ++strip) {
        const float* const own = sums.data() + strip * each;
        for (size_t i = 0; i < places; ++i) by_place[i] += own[i];
        for (size_t i = 0; i < buckets; ++i) by_time[i] += own[places + i];
    }
}

ffi::Error soft_runs(Floats q, Floats k, Floats v, Indices low, Indices high, FloatsOut seen, FloatsOut total) {
    Strips all = strips_of(q, k, v, low, high);
    all.seen = seen->typed_data(), all.total = total->typed_data();
    compute_all(all, false, nullptr, nullptr);
    return ffi::Error::Success();
}

ffi::Error soft_runs_gradients(Floats q, Floats k, Floats v, Indices low, Indices high, Floats was, Floats was_total, Floats outer,
                               Floats of_total, FloatsOut by_q, FloatsOut by_k, FloatsOut by_v) {
    Strips all = strips_of(q, k, v, low, high);
    all.was = was.typed_data(), all.was_total = was_total.typed_data();
    all.outer = outer.typed_data(), all.of_total = of_total.typed_data();
    all.by_q = by_q->typed_data(), all.by_k = by_k->typed_data(), all.by_v = by_v->typed_data();
    compute_all(all, true, nullptr, nullptr);
    return ffi::Error::Success();
}

Bias bias_of(const Floats& place, const Floats& time, const Indices& at, const Indices& when, const Indices& seconds) {
    return {place.typed_data(), time.typed_data(), at.typed_data(), when.typed_data(), seconds.typed_data(),
            size_t(place.dimensions()[0]), nullptr, nullptr};
}

ffi::Error silu_runs(Floats q, Floats k, Floats v, Floats place, Floats time, Indices low, Indices high, Indices at, Indices when,
                     Indices seconds, FloatsOut seen) {
    Strips all = strips_of(q, k, v, low, high);
    all.bias = bias_of(place, time, at, when, seconds);
    all.seen = seen->typed_data();
    compute_all(all, false, nullptr, nullptr);
    return ffi::Error::Success();
}

ffi::Error silu_runs_gradients(Floats q, Floats k, Floats v, Floats place, Floats time, Indices low, Indices high, Indices at,
                               Indices when, Indices seconds, Floats outer, FloatsOut by_q, FloatsOut by_k, FloatsOut by_v,
                               FloatsOut by_place, FloatsOut by_time) {
    Strips all = strips_of(q, k, v, low, high);
    all.bias = bias_of(place, time, at, when, seconds);
    all.outer = outer.typed_data();
    all.by_q = by_q->typed_data(), all.by_k = by_k->typed_data(), all.by_v = by_v->typed_data();
    compute_all(all, true, by_place->typed_data(), by_time->typed_data());
    return ffi::Error::Success();
}

}  // namespace

}  // namespace xpsql

using F = xpsql::Floats;
using I = xpsql::Indices;

namespace {

// What a kernel and its gradients are given first: q, k, v, and what each event sees.
auto soft_given() { return ffi::Ffi::Bind().Arg<F>().Arg<F>().Arg<F>().Arg<I>().Arg<I>(); }

// The same with the biases by place and time, and what they are of.
auto silu_given() {
    return ffi::Ffi::Bind().Arg<F>().Arg<F>().Arg<F>().Arg<F>().Arg<F>().Arg<I>().Arg<I>().Arg<I>().Arg<I>().Arg<I>();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_soft_runs, xpsql::soft_runs, soft_given().Ret<F>().Ret<F>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_soft_runs_gradients, xpsql::soft_runs_gradients,
                              soft_given().Arg<F>().Arg<F>().Arg<F>().Arg<F>().Ret<F>().Ret<F>().Ret<F>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_silu_runs, xpsql::silu_runs, silu_given().Ret<F>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_silu_runs_gradients, xpsql::silu_runs_gradients,
                              silu_given().Arg<F>().Ret<F>().Ret<F>().Ret<F>().Ret<F>().Ret<F>());
