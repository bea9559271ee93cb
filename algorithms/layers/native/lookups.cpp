// Rows of a matrix by index, summed over examples, and the gradients of that: what XLA does element by element on CPUs.
// Each function is a custom call of XLA; the mathematics, and the same in JAX, is algorithms/layers/lookups.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <stdlib.h>  // which defines __GLIBC__ where there is one
#include <xla/ffi/api/ffi.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdint>
#include <cstring>
#include <numeric>

#include "affine.hpp"
#include "attention.hpp"
#include "buffers.hpp"
#include "callback.hpp"
#include "causal.hpp"
#include "parallel.hpp"
#include "projection.hpp"
#include "recurrence.hpp"
#include "search.hpp"
#include "wide.hpp"

namespace nb = nanobind;
namespace ffi = xla::ffi;

namespace xpsql {

namespace {

constexpr size_t most_dim = 1024;  // of the vectors of algorithms that meet
constexpr size_t run = 128;        // examples that a thread takes at a time
constexpr size_t worth = 1 << 15;  // floats that are worth a helper

// Calls use(width), with the number of floats known to the compiler where it is a usual one.
template <size_t n>
struct Known {
    static constexpr size_t value = n;
    constexpr operator size_t() const { return n; }
};

template <class Use>
void with_width(size_t width, Use use) {
    switch (width) {
        case 1: return use(Known<1>{});
        case 4: return use(Known<4>{});
        case 8: return use(Known<8>{});
        case 16: return use(Known<16>{});
        case 32: return use(Known<32>{});
        default: return use(width);
    }
}

struct Shape {
    size_t rows, dim, lines, batch;
};

Shape shape_of(const Floats& vectors, const Indices& index) {
    const auto v = vectors.dimensions(), i = index.dimensions();
    return {size_t(v[0]), size_t(v[1]), size_t(i[0]), size_t(i[1])};
}

// Calls act(begin, end) for runs of lines that have no row in common: few, since each run goes through all examples.
template <class Act>
void by_lines(const int32_t* index, size_t lines, size_t batch, Act act) {
    const size_t most = 2 * Team::get().threads();
    std::vector<size_t> begins = {0};
    for (const size_t begin : disjoint(spans_of(index, lines, batch)))
        if (begin * most >= lines * begins.size() || begin == lines) begins.push_back(begin);
    Team::get().run(begins.size() - 1, [&](size_t part) { act(begins[part], begins[part + 1]); });
}

// The same for work that costs little: all lines at once where nobody helps, or there is little of it.
template <class Act>
void by_few_lines(const int32_t* index, size_t lines, size_t batch, size_t dim, Act act) {
    if (Team::get().threads() < 2 || lines * batch * dim < worth) return act(size_t{0}, lines);
    by_lines(index, lines, batch, act);
}

// Examples of a run that is worth a helper.
size_t run_of(const Shape& shape) { return std::max(run, worth / 2 / std::max<size_t>(shape.lines * shape.dim, 1)); }

// gathered[b, l] = vectors[index[l, b]]
void gather_rows(const Shape& shape, const float* from, const int32_t* at, float* to) {
    with_width(shape.dim, [&](auto dim) {
        in_pieces(shape.batch, run_of(shape), [&](size_t begin, size_t end) {
            float* out = to + begin * shape.lines * dim;
            for (size_t b = begin; b < end; ++b)
                for (size_t l = 0; l < shape.lines; ++l, out += dim)
                    std::memcpy(out, from + size_t(at[l * shape.batch + b]) * dim, dim * sizeof(float));
        });
    });
}

ffi::Error gather(Floats vectors, Indices index, FloatsOut gathered) {
    gather_rows(shape_of(vectors, index), vectors.typed_data(), index.typed_data(), gathered->typed_data());
    return ffi::Error::Success();
}

// gradient[index[l, b]] += gathered[b, l]
void scatter_rows(const Shape& shape, const float* from, const int32_t* at, float* to) {
    std::memset(to, 0, shape.rows * shape.dim * sizeof(float));
    with_width(shape.dim, [&](auto dim) {
        by_few_lines(at, shape.lines, shape.batch, dim, [&](size_t begin, size_t end) {
            for (size_t b = 0; b < shape.batch; ++b) {
                const float* own = from + (b * shape.lines + begin) * dim;
                for (size_t l = begin; l < end; ++l, own += dim) {
                    float* row = to + size_t(at[l * shape.batch + b]) * dim;
                    for (size_t d = 0; d < dim; ++d) row[d] += own[d];
                }
            }
        });
    });
}

ffi::Error scatter(Floats gathered, Indices index, FloatsOut gradient) {
    scatter_rows(shape_of(*gradient, index), gathered.typed_data(), index.typed_data(), gradient->typed_data());
    return ffi::Error::Success();
}

// sums[b] = sum over l of vectors[index[l, b]]; squares likewise of their squares
ffi::Error sum(Floats vectors, Indices index, FloatsOut sums, FloatsOut squares) {
    const Shape shape = shape_of(vectors, index);
    const float* from = vectors.typed_data();
    const int32_t* at = index.typed_data();
    std::memset(sums->typed_data(), 0, sums->size_bytes());
    std::memset(squares->typed_data(), 0, squares->size_bytes());
    with_width(shape.dim, [&](auto dim) {
        in_pieces(shape.batch, run_of(shape), [&](size_t begin, size_t end) {
            for (size_t l = 0; l < shape.lines; ++l) {
                float* sum = sums->typed_data() + begin * dim;
                float* square = squares->typed_data() + begin * dim;
                for (size_t b = begin; b < end; ++b, sum += dim, square += dim) {
                    const float* row = from + size_t(at[l * shape.batch + b]) * dim;
                    for (size_t d = 0; d < dim; ++d) {
                        sum[d] += row[d];
                        square[d] += row[d] * row[d];
                    }
                }
            }
        });
    });
    return ffi::Error::Success();
}

// gradient[index[l, b]] += sums[b] + 2 squares[b] vectors[index[l, b]]
ffi::Error sum_gradient(Floats vectors, Indices index, Floats sums, Floats squares, FloatsOut gradient) {
    const Shape shape = shape_of(vectors, index);
    const float* from = vectors.typed_data();
    const int32_t* at = index.typed_data();
    std::memset(gradient->typed_data(), 0, gradient->size_bytes());
    with_width(shape.dim, [&](auto dim) {
        by_few_lines(at, shape.lines, shape.batch, dim, [&](size_t begin, size_t end) {
            for (size_t l = begin; l < end; ++l) {
                const float* sum = sums.typed_data();
                const float* square = squares.typed_data();
                for (size_t b = 0; b < shape.batch; ++b, sum += dim, square += dim) {
                    const size_t own = size_t(at[l * shape.batch + b]) * dim;
                    const float* row = from + own;
                    float* to = gradient->typed_data() + own;
                    for (size_t d = 0; d < dim; ++d) to[d] += sum[d] + 2 * square[d] * row[d];
                }
            }
        });
    });
    return ffi::Error::Success();
}

// totals[b] = sum over l of weights[index[l, b]]
ffi::Error total(Floats weights, Indices index, FloatsOut totals) {
    const size_t lines = index.dimensions()[0], batch = index.dimensions()[1];
    const float* from = weights.typed_data();
    const int32_t* at = index.typed_data();
    float* to = totals->typed_data();
    std::memset(to, 0, totals->size_bytes());
    in_pieces(batch, run_of({0, 1, lines, batch}), [&](size_t begin, size_t end) {
        for (size_t l = 0; l < lines; ++l)
            for (size_t b = begin; b < end; ++b) to[b] += from[at[l * batch + b]];
    });
    return ffi::Error::Success();
}

// gradient[index[l, b]] += totals[b]
ffi::Error total_gradient(Floats totals, Indices index, FloatsOut gradient) {
    const size_t lines = index.dimensions()[0], batch = index.dimensions()[1];
    const float* from = totals.typed_data();
    const int32_t* at = index.typed_data();
    float* to = gradient->typed_data();
    std::memset(to, 0, gradient->size_bytes());
    by_few_lines(at, lines, batch, 1, [&](size_t begin, size_t end) {
        for (size_t l = begin; l < end; ++l)
            for (size_t b = 0; b < batch; ++b) to[at[l * batch + b]] += from[b];
    });
    return ffi::Error::Success();
}

// Row s of an example has, from s' dim on, what slot s has for meeting slot s'. scores[b] = sum over l < k of
// <vectors[index[l, b]][k], vectors[index[k, b]][l]>; of lines that are common, once for neighbours of one owner
ffi::Error meet(Floats vectors, Indices index, Indices owner, Indices common, FloatsOut scores) {
    const Shape shape = shape_of(vectors, index);
    const float* from = vectors.typed_data();
    const int32_t* at = index.typed_data();
    const int32_t *of = owner.typed_data(), *shared = common.typed_data();
    float* to = scores->typed_data();
    with_width(shape.dim / shape.lines, [&](auto dim) {
        const auto add = [&](size_t b, bool once, float* products) {
            for (size_t l = 1; l < shape.lines; ++l) {
                const bool may_be = shared[l] != 0;
                if (once && !may_be) continue;
                const float* own = from + size_t(at[l * shape.batch + b]) * shape.dim;
                for (size_t k = 0; k < l; ++k) {
                    if (may_be && (shared[k] != 0) != once) continue;
                    const float* other = from + size_t(at[k * shape.batch + b]) * shape.dim + l * dim;
                    for (size_t d = 0; d < dim; ++d) products[d] += own[k * dim + d] * other[d];
                }
            }
        };
        in_runs(shape.batch, run, [&](size_t begin, size_t end) {
            float in_common[most_dim] = {};
            for (size_t b = begin; b < end; ++b) {
                if (b == begin || of[b] != of[b - 1]) {
                    std::fill_n(in_common, dim, 0.0f);
                    add(b, true, in_common);
                }
                float products[most_dim];
                std::copy_n(in_common, dim, products);
                add(b, false, products);
                to[b] = std::accumulate(products, products + dim, 0.0f);
            }
        });
    });
    return ffi::Error::Success();
}

// gradient[index[l, b]][k] += scores[b] vectors[index[k, b]][l], and the same with l and k exchanged
ffi::Error meet_gradient(Floats vectors, Indices index, Indices owner, Indices common, Floats scores, FloatsOut gradient) {
    const Shape shape = shape_of(vectors, index);
    const float* from = vectors.typed_data();
    const int32_t* at = index.typed_data();
    const int32_t *of = owner.typed_data(), *shared = common.typed_data();
    float* to = gradient->typed_data();
    std::memset(to, 0, gradient->size_bytes());
    with_width(shape.dim / shape.lines, [&](auto dim) {
        by_lines(at, shape.lines, shape.batch, [&](size_t begin, size_t end) {
            float in_common = 0;
            for (size_t b = 0; b < shape.batch; ++b) {
                const bool last = b + 1 == shape.batch || of[b] != of[b + 1];
                const float own = scores.typed_data()[b];
                in_common += own;
                for (size_t l = begin; l < end; ++l) {
                    float* row = to + size_t(at[l * shape.batch + b]) * shape.dim;
                    const bool may_be = shared[l] != 0;
                    for (size_t k = 0; k < shape.lines; ++k) {
                        const bool once = may_be && shared[k] != 0;
                        if (k == l || (once && !last)) continue;
                        const float score = once ? in_common : own;
                        const float* other = from + size_t(at[k * shape.batch + b]) * shape.dim + l * dim;
                        for (size_t d = 0; d < dim; ++d) row[k * dim + d] += score * other[d];
                    }
                }
                if (last) in_common = 0;
            }
        });
    });
    return ffi::Error::Success();
}

using projection::Lines;
using projection::Product;
using projection::ProductGradients;
using projection::Sizes;

Lines find_lines(const int32_t* index, const Sizes& sizes) { return Lines(index, sizes); }
void multiply(const Product& product, size_t part) { product.multiply(part); }
void add_up(const Product& product, size_t part) { product.add_up(part); }
void add_gradients(const ProductGradients& gradients, size_t unit, size_t part) { gradients.add(unit, part); }
XPSQL_WIDE Lines find_lines_wide(const int32_t* index, const Sizes& sizes) { return Lines(index, sizes); }
XPSQL_WIDE void multiply_wide(const Product& product, size_t part) { product.multiply(part); }
XPSQL_WIDE void add_up_wide(const Product& product, size_t part) { product.add_up(part); }
XPSQL_WIDE void add_gradients_wide(const ProductGradients& gradients, size_t unit, size_t part) { gradients.add(unit, part); }

Sizes sizes_of(const Shape& shape, size_t units) { return {shape.rows, shape.dim, shape.lines, shape.batch, units}; }

Lines lines_of(const int32_t* index, const Sizes& sizes) { return (wide() ? find_lines_wide : find_lines)(index, sizes); }

// sums[b] = sum over l of vectors[index[l, b]] kernel[l]
void project_rows(const Sizes& sizes, const float* vectors, const int32_t* index, const float* kernel, float* sums) {
    const Product product(sizes, lines_of(index, sizes), vectors, kernel, sums);
    const auto first = wide() ? multiply_wide : multiply, second = wide() ? add_up_wide : add_up;
    Team::get().run(product.factors(), [&](size_t part) { first(product, part); });
    Team::get().run(product.sums(), [&](size_t part) { second(product, part); });
}

ffi::Error project(Floats vectors, Indices index, Floats kernel, FloatsOut sums) {
    const Sizes sizes = sizes_of(shape_of(vectors, index), kernel.dimensions()[1]);
    project_rows(sizes, vectors.typed_data(), index.typed_data(), kernel.typed_data(), sums->typed_data());
    return ffi::Error::Success();
}

void project_rows_gradients(const Sizes& sizes, const float* vectors, const int32_t* index, const float* kernel, const float* sums,
                            float* by_vectors, float* by_kernel) {
    const ProductGradients gradients(sizes, lines_of(index, sizes), vectors, kernel, sums, {by_vectors, by_kernel});
    const auto add = wide() ? add_gradients_wide : add_gradients;
    for (size_t unit = 0; unit < gradients.units(); unit += gradients.width(unit))
        Team::get().run(gradients.runs(), [&](size_t part) { add(gradients, unit, part); });
}

ffi::Error project_gradients(Floats vectors, Indices index, Floats kernel, Floats sums, FloatsOut by_vectors, FloatsOut by_kernel) {
    const Sizes sizes = sizes_of(shape_of(vectors, index), kernel.dimensions()[1]);
    project_rows_gradients(sizes, vectors.typed_data(), index.typed_data(), kernel.typed_data(), sums.typed_data(),
                           by_vectors->typed_data(), by_kernel->typed_data());
    return ffi::Error::Success();
}

// The same for arrays of numpy or tensors of PyTorch, float32 and int32, of those shapes, into the last ones.
using Array = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Index = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ArrayOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Vectors>
Shape shape_of(const Vectors& vectors, const Index& index) {
    return {vectors.shape(0), vectors.shape(1), index.shape(0), index.shape(1)};
}

void gather_arrays(Array vectors, Index index, ArrayOut gathered) {
    gather_rows(shape_of(vectors, index), vectors.data(), index.data(), gathered.data());
}

void scatter_arrays(Array gathered, Index index, ArrayOut gradient) {
    scatter_rows(shape_of(gradient, index), gathered.data(), index.data(), gradient.data());
}

void project_arrays(Array vectors, Index index, Array kernel, ArrayOut sums) {
    project_rows(sizes_of(shape_of(vectors, index), kernel.shape(1)), vectors.data(), index.data(), kernel.data(), sums.data());
}

void project_arrays_gradients(Array vectors, Index index, Array kernel, Array sums, ArrayOut by_vectors, ArrayOut by_kernel) {
    project_rows_gradients(sizes_of(shape_of(vectors, index), kernel.shape(1)), vectors.data(), index.data(), kernel.data(),
                           sums.data(), by_vectors.data(), by_kernel.data());
}

XLA_FFI_DEFINE_HANDLER(gather_handler, gather, ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(scatter_handler, scatter, ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(sum_handler, sum, ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Ret<Floats>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(sum_gradient_handler, sum_gradient,
                       ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Arg<Floats>().Arg<Floats>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(total_handler, total, ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(total_gradient_handler, total_gradient, ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(meet_handler, meet,
                       ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Arg<Indices>().Arg<Indices>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(
    meet_gradient_handler, meet_gradient,
    ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Arg<Indices>().Arg<Indices>().Arg<Floats>().Ret<Floats>());

XLA_FFI_DEFINE_HANDLER(project_handler, project, ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Arg<Floats>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER(project_gradients_handler, project_gradients,
                       ffi::Ffi::Bind().Arg<Floats>().Arg<Indices>().Arg<Floats>().Arg<Floats>().Ret<Floats>().Ret<Floats>());

void keep_freed(int bytes) {
#ifdef __GLIBC__
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, bytes);
#else
    (void)bytes;
#endif
}

}  // namespace

}  // namespace xpsql

NB_MODULE(_lookups, module) {
    module.doc() = "Look-ups of rows, and their gradients, as custom calls of XLA.";
    module.def("set_threads", [](size_t count) { xpsql::Team::get().set_threads(count); }, nb::arg("count"));
    module.def("keep_freed", &xpsql::keep_freed, nb::arg("bytes"));
    xpsql::bind_search(module);
    const auto without_lock = nb::call_guard<nb::gil_scoped_release>();
    module.def("gather", &xpsql::gather_arrays, without_lock);
    module.def("scatter", &xpsql::scatter_arrays, without_lock);
    module.def("project", &xpsql::project_arrays, without_lock);
    module.def("project_gradients", &xpsql::project_arrays_gradients, without_lock);
    module.def("calls", [] {
        nb::dict calls;
        const auto add = [&](const char* name, XLA_FFI_Handler* handler) {
            calls[name] = nb::capsule(reinterpret_cast<void*>(handler));
        };
        add("gather", xpsql::gather_handler);
        add("scatter", xpsql::scatter_handler);
        add("sum", xpsql::sum_handler);
        add("sum_gradient", xpsql::sum_gradient_handler);
        add("total", xpsql::total_handler);
        add("total_gradient", xpsql::total_gradient_handler);
        add("meet", xpsql::meet_handler);
        add("meet_gradient", xpsql::meet_gradient_handler);
        add("project", xpsql::project_handler);
        add("project_gradients", xpsql::project_gradients_handler);
        add("attend", xpsql_attend);
        add("attend_gradients", xpsql_attend_gradients);
        add("affine", xpsql_affine);
        add("affine_gradients", xpsql_affine_gradients);
        add("recur", xpsql_recur);
        add("recur_gradients", xpsql_recur_gradients);
        add("soft_runs", xpsql_soft_runs);
        add("soft_runs_gradients", xpsql_soft_runs_gradients);
        add("silu_runs", xpsql_silu_runs);
        add("silu_runs_gradients", xpsql_silu_runs_gradients);
        add("callback", xpsql_callback);
        return calls;
    });
}
