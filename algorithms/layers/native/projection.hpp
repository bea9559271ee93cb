// The rows that stand side by side for an example, times a matrix, and the gradients of that. Within a batch most rows of a
// line occur many times. Such a line's distinct rows are multiplied once each and their products summed by example; backwards,
// examples' gradients are summed by row first. These are the same sums in another order, with fewer multiplications.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "lines.hpp"
#include "wide.hpp"

namespace xpsql::projection {

using Lane = Lane32;

constexpr size_t lane = sizeof(Lane) / sizeof(float);
constexpr size_t pair = 2 * lane;      // units are a multiple of it
constexpr size_t tile = 4 * pair;      // units whose gradients are summed at a time: a batch's stay in cache
constexpr size_t block = 6;            // rows multiplied at a time: with a pair of lanes each, their sums stay in registers
constexpr size_t stretch = 8 * block;  // rows that stay in the nearest cache between two products
constexpr size_t high = 4;             // elements of rows whose gradients by kernel are summed at a time
constexpr size_t turn = 16;            // examples whose cells are turned at a time

struct Sizes {
    size_t rows, dim, lines, batch, units;
};

// Memory of the thread that asks, which is the next one's who asks.
inline float* scratch(size_t floats) {
    thread_local std::vector<float> memory;
    if (memory.size() < floats) memory.resize(floats);
    return memory.data();
}

XPSQL_INLINE Lane load(const float* from) { return Lanes<Lane>::load(from); }
XPSQL_INLINE void store(float* to, Lane values) { Lanes<Lane>::store(to, values); }

// A line of an index, and its cells: each has a row, each example is in one. The rows of a batch's slot stand one after the
// other, and the last row of all is what is absent; so there is a cell for each row from the lowest to the highest, and one for
// the last. Where these are not much fewer than examples, the line is direct: each example is a cell.
struct Line {
    const int32_t* index;
    const int32_t* rows;  // of its cells
    size_t cells;
    size_t first;  // cell, counted over lines that are not direct
    size_t low, between;
    bool direct;
    Span span;

    size_t cell(size_t example) const { return std::min(size_t(index[example]) - low, between); }
};

struct Lines {
    std::vector<Line> all;
    std::vector<int32_t> rows;
    size_t cells = 0;   // of lines that are not direct
    size_t direct = 0;  // lines that are

    XPSQL_INLINE Lines(const int32_t* index, const Sizes& sizes) : all(sizes.lines), rows(sizes.lines * sizes.batch) {
        int32_t last = 0;
        for (size_t i = 0; i < sizes.lines * sizes.batch; ++i) last = std::max(last, index[i]);
        for (Line& line : all) {
            int32_t low = last, high = -1, top = -1;
            for (size_t b = 0; b < sizes.batch; ++b) {
                low = std::min(low, index[b]);
                high = std::max(high, index[b] == last ? -1 : index[b]);
                top = std::max(top, index[b]);
            }
            const size_t absent = top == last;
            const size_t between = high < low ? 0 : size_t(high - low) + 1;
            const bool is_direct = 2 * (between + absent) > sizes.batch;
            line = {index, index, sizes.batch, cells, size_t(low), between, is_direct, {low, top}};
            direct += line.direct;
            if (!line.direct) {
                line.rows = rows.data() + cells;
                line.cells = between + absent;
                for (size_t c = 0; c < between; ++c) rows[cells + c] = low + int32_t(c);
                if (absent != 0) rows[cells + between] = last;
                cells += line.cells;
            }
            index += sizes.batch;
        }
    }

    std::vector<Span> spans() const {
        std::vector<Span> spans;
        for (const Line& line : all) spans.push_back(line.span);
        return spans;
    }
};

// The vectors of a block of cells from one on; behind the last, that again.
struct Block {
    const float* left[block];

    XPSQL_INLINE Block(const Line& line, size_t cell, const float* vectors, size_t dim) {
        for (size_t r = 0; r < block; ++r) left[r] = vectors + size_t(line.rows[std::min(cell + r, line.cells - 1)]) * dim;
    }
    XPSQL_INLINE Block(size_t cells, size_t cell, const float* sums, size_t stride) {
        for (size_t r = 0; r < block; ++r) left[r] = sums + std::min(cell + r, cells - 1) * stride;
    }
};

template <size_t lanes>
struct Products {
    Lane sums[block][lanes];

    XPSQL_INLINE Products() {
        for (size_t r = 0; r < block; ++r)
            for (size_t v = 0; v < lanes; ++v) sums[r][v] = Lane{};
    }
    // sums[r] += sum over k < n of left[r][k] right[k]
    XPSQL_INLINE void add(const Block& rows, const float* right, size_t n, size_t stride) {
        for (size_t k = 0; k < n; ++k, right += stride) {
            Lane own[lanes];
            for (size_t v = 0; v < lanes; ++v) own[v] = load(right + v * lane);
            for (size_t r = 0; r < block; ++r)
                for (size_t v = 0; v < lanes; ++v) sums[r][v] += rows.left[r][k] * own[v];
        }
    }
    XPSQL_INLINE void put(size_t n, float* to, size_t stride) const {
        for (size_t r = 0; r < block; ++r)
            for (size_t v = 0; v < lanes && r < n; ++v) store(to + r * stride + v * lane, sums[r][v]);
    }
};

// The kernel of direct lines, [units / pair, width, pair]: what a block is multiplied with lies side by side.
XPSQL_INLINE std::vector<float> panels_of(const Sizes& sizes, const Lines& lines, const float* kernel) {
    std::vector<float> panels(lines.direct * sizes.dim * sizes.units);
    const size_t step = lines.direct * sizes.dim * pair;
    float* to = panels.data();
    for (const Line& line : lines.all) {
        for (size_t d = 0; d < sizes.dim; ++d, kernel += sizes.units) {
            if (!line.direct) continue;
            for (size_t p = 0; p * pair < sizes.units; ++p) std::memcpy(to + p * step, kernel + p * pair, pair * sizeof(float));
            to += pair;
        }
    }
    return panels;
}

// to[b] = the vectors of an example's direct lines, side by side, for n examples from one on
XPSQL_INLINE void gather_direct(const Lines& lines, size_t start, size_t n, const float* vectors, size_t dim, float* to) {
    const size_t width = lines.direct * dim;
    for (const Line& line : lines.all) {
        if (!line.direct) continue;
        for (size_t b = 0; b < n; ++b)
            std::memcpy(to + b * width, vectors + size_t(line.index[start + b]) * dim, dim * sizeof(float));
        to += dim;
    }
}

// sums[b] = sum over direct lines of vectors[index[l, b]] kernel[l], for examples [begin, end)
XPSQL_INLINE void project_examples(const Sizes& sizes, const Lines& lines, const float* vectors, const float* panels,
                                   size_t begin, size_t end, float* sums) {
    const size_t width = lines.direct * sizes.dim;
    float* const own = scratch(stretch * width);
    sums += begin * sizes.units;
    for (size_t start = begin; start < end; start += stretch, sums += stretch * sizes.units) {
        const size_t n = std::min(stretch, end - start);
        gather_direct(lines, start, n, vectors, sizes.dim, own);
        for (size_t u = 0; u < sizes.units; u += pair)
            for (size_t b = 0; b < n; b += block) {
                Products<2> products;
                products.add(Block(n, b, own, width), panels + u * width, width, pair);
                products.put(n - b, sums + b * sizes.units + u, sizes.units);
            }
    }
}

// products[cell] = vectors[row of the cell] kernel[line of the cell], for a line that is not direct
XPSQL_INLINE void project_cells(const Sizes& sizes, const Line& line, const float* vectors, const float* kernel, float* products) {
    for (size_t c = 0; c < line.cells; c += block) {
        const Block rows(line, c, vectors, sizes.dim);
        for (size_t u = 0; u < sizes.units; u += pair) {
            Products<2> own;
            own.add(rows, kernel + u, sizes.dim, sizes.units);
            own.put(line.cells - c, products + (line.first + c) * sizes.units + u, sizes.units);
        }
    }
}

template <size_t lanes>
XPSQL_INLINE void add_products(const float* products, const uint32_t* cells, size_t n, size_t units, float* to) {
    Lane sums[lanes];
    for (size_t v = 0; v < lanes; ++v) sums[v] = load(to + v * lane);
    for (size_t i = 0; i < n; ++i) {
        const float* own = products + size_t(cells[i]) * units;
        for (size_t v = 0; v < lanes; ++v) sums[v] += load(own + v * lane);
    }
    for (size_t v = 0; v < lanes; ++v) store(to + v * lane, sums[v]);
}

// sums[b] += sum over lines that are not direct of products[cell of l and b], for examples [begin, end)
XPSQL_INLINE void sum_cells(const Sizes& sizes, const Lines& lines, const float* products, size_t begin, size_t end, float* sums) {
    const size_t units = sizes.units;
    std::vector<uint32_t> cells(turn * sizes.lines);
    sums += begin * units;
    for (size_t start = begin; start < end; start += turn) {
        const size_t examples = std::min(turn, end - start);
        size_t n = 0;
        for (const Line& line : lines.all) {
            if (line.direct) continue;
            for (size_t b = 0; b < examples; ++b) cells[b * sizes.lines + n] = uint32_t(line.first + line.cell(start + b));
            ++n;
        }
        for (size_t b = 0; b < examples; ++b, sums += units) {
            const uint32_t* own = cells.data() + b * sizes.lines;
            size_t u = 0;
            for (; u + tile <= units; u += tile) add_products<tile / lane>(products + u, own, n, units, sums + u);
            for (; u < units; u += pair) add_products<2>(products + u, own, n, units, sums + u);
        }
    }
}

// sums[b] = sum over l of vectors[index[l, b]] kernel[l], in parts that several threads may work on: first `multiply` for all of
// `factors`, then `add_up` for all of `sums`.
class Product {
  public:
    Product(const Sizes& sizes, Lines&& lines, const float* vectors, const float* kernel, float* sums)
        : sizes_(sizes), vectors_(vectors), kernel_(kernel), to_(sums), lines_(std::move(lines)),
          panels_(panels_of(sizes, lines_, kernel)), products_(new float[lines_.cells * sizes.units]) {}

    size_t factors() const { return sums() + sizes_.lines; }
    size_t sums() const { return (sizes_.batch + run - 1) / run; }

    XPSQL_INLINE void multiply(size_t part) const {
        if (part < sums())
            project_examples(sizes_, lines_, vectors_, panels_.data(), begin(part), begin(part + 1), to_);
        else if (const size_t line = part - sums(); !lines_.all[line].direct)
            project_cells(sizes_, lines_.all[line], vectors_, kernel_ + line * sizes_.dim * sizes_.units, products_.get());
    }

    XPSQL_INLINE void add_up(size_t part) const {
        sum_cells(sizes_, lines_, products_.get(), begin(part), begin(part + 1), to_);
    }

  private:
    static constexpr size_t run = 2 * stretch;  // examples of a part

    size_t begin(size_t part) const { return std::min(part * run, sizes_.batch); }

    const Sizes sizes_;
    const float* const vectors_;
    const float* const kernel_;
    float* const to_;
    const Lines lines_;
    const std::vector<float> panels_;
    const std::unique_ptr<float[]> products_;
};

// What the cells of a line have of a tile of units: the sums of their examples' gradients.
struct Tile {
    const float* sums;
    size_t stride;
};

// to[cell] = sum over its examples of from[b]
template <size_t lanes>
XPSQL_INLINE Tile sum_examples(const Line& line, size_t batch, const float* from, size_t stride, float* to) {
    std::memset(to, 0, line.cells * lanes * sizeof(Lane));
    for (size_t b = 0; b < batch; ++b, from += stride) {
        float* own = to + line.cell(b) * lanes * lane;
        for (size_t v = 0; v < lanes; ++v) store(own + v * lane, load(own + v * lane) + load(from + v * lane));
    }
    return {to, lanes * lane};
}

// gradient[row of the cell] += sums[cell] turned, `some` floats of a block of cells
template <size_t width, size_t lanes>
XPSQL_INLINE void add_row_gradients(const Line& line, size_t cell, Tile tile, const float* turned, size_t stride, size_t dim,
                                    size_t some, float* gradient) {
    Products<lanes> products;
    float own[block][lanes * lane];
    products.add(Block(line.cells, cell, tile.sums, tile.stride), turned, width, stride);
    products.put(block, own[0], lanes * lane);
    for (size_t r = 0; r < std::min(block, line.cells - cell); ++r) {
        float* to = gradient + size_t(line.rows[cell + r]) * dim;
        for (size_t d = 0; d < some; ++d) to[d] += own[r][d];
    }
}

// gradient[d] += sum over n cells of their row[d] sums[cell], `high` floats and a tile of units
template <size_t width, size_t high>
XPSQL_INLINE void add_kernel_gradients(const int32_t* rows, size_t n, const float* vectors, size_t dim, Tile tile,
                                       float* gradient, size_t units) {
    for (size_t u = 0; u < width; u += pair) {
        Lane sums[high][2];
        for (size_t d = 0; d < high; ++d)
            for (size_t v = 0; v < 2; ++v) sums[d][v] = load(gradient + d * units + u + v * lane);
        for (size_t c = 0; c < n; ++c) {
            const float* left = vectors + size_t(rows[c]) * dim;
            const float* right = tile.sums + c * tile.stride + u;
            for (size_t v = 0; v < 2; ++v) {
                const Lane own = load(right + v * lane);
                for (size_t d = 0; d < high; ++d) sums[d][v] += left[d] * own;
            }
        }
        for (size_t d = 0; d < high; ++d)
            for (size_t v = 0; v < 2; ++v) store(gradient + d * units + u + v * lane, sums[d][v]);
    }
}

struct Gradients {
    float* vectors;
    float* kernel;
};

// The gradients of one line and a tile of units.
template <size_t width>
XPSQL_INLINE void line_gradients(const Sizes& sizes, const Line& line, const float* vectors, Tile tile, const float* turned,
                                 size_t stride, Gradients to) {
    const size_t dim = sizes.dim, units = sizes.units;
    for (size_t start = 0; start < line.cells; start += stretch) {
        const size_t n = std::min(stretch, line.cells - start);
        for (size_t c = start; c < start + n; c += block) {
            size_t d = 0;
            for (; d + lane < dim; d += pair)
                add_row_gradients<width, 2>(line, c, tile, turned + d, stride, dim, std::min(dim - d, pair), to.vectors + d);
            if (d < dim) add_row_gradients<width, 1>(line, c, tile, turned + d, stride, dim, dim - d, to.vectors + d);
        }
        const int32_t* rows = line.rows + start;
        const Tile own = {tile.sums + start * tile.stride, tile.stride};
        size_t d = 0;
        for (; d + high <= dim; d += high)
            add_kernel_gradients<width, high>(rows, n, vectors + d, dim, own, to.kernel + d * units, units);
        for (; d < dim; ++d) add_kernel_gradients<width, 1>(rows, n, vectors + d, dim, own, to.kernel + d * units, units);
    }
}

// The gradients of some lines and a tile of units.
template <size_t lanes>
XPSQL_INLINE void tile_gradients(const Sizes& sizes, const Lines& lines, size_t begin, size_t end, const float* vectors,
                                 const float* kernel, const float* sums, Gradients to) {
    constexpr size_t width = lanes * lane;
    const size_t dim = sizes.dim, units = sizes.units, stride = (dim + lane - 1) / lane * lane;
    float* const turned = scratch(width * (stride + sizes.batch));
    float* const tiles = turned + width * stride;
    std::memset(turned, 0, width * stride * sizeof(float));
    kernel += begin * dim * units;
    to.kernel += begin * dim * units;
    for (size_t l = begin; l < end; ++l) {
        const Line& line = lines.all[l];
        for (size_t d = 0; d < dim; ++d)
            for (size_t u = 0; u < width; ++u) turned[u * stride + d] = kernel[d * units + u];
        const Tile own = line.direct ? Tile{sums, units} : sum_examples<lanes>(line, sizes.batch, sums, units, tiles);
        line_gradients<width>(sizes, line, vectors, own, turned, stride, to);
        kernel += dim * units;
        to.kernel += dim * units;
    }
}

// The gradients of a product by vectors and kernel, for those by its sums, in parts that several threads may work on: for one
// tile of units after the other, whose gradients stay in cache, `add` for all runs of lines.
class ProductGradients {
  public:
    ProductGradients(const Sizes& sizes, Lines&& lines, const float* vectors, const float* kernel, const float* sums, Gradients to)
        : sizes_(sizes), vectors_(vectors), kernel_(kernel), sums_(sums), to_(to), lines_(std::move(lines)),
          runs_(disjoint(lines_.spans())) {
        std::memset(to.vectors, 0, sizes.rows * sizes.dim * sizeof(float));
        std::memset(to.kernel, 0, sizes.lines * sizes.dim * sizes.units * sizeof(float));
    }

    size_t runs() const { return runs_.size() - 1; }
    size_t units() const { return sizes_.units; }
    // How many units the tile has that begins with one.
    size_t width(size_t unit) const { return unit + tile <= sizes_.units ? tile : pair; }

    XPSQL_INLINE void add(size_t unit, size_t part) const {
        const size_t begin = runs_[part], end = runs_[part + 1];
        const Gradients to = {to_.vectors, to_.kernel + unit};
        if (width(unit) == tile)
            tile_gradients<tile / lane>(sizes_, lines_, begin, end, vectors_, kernel_ + unit, sums_ + unit, to);
        else
            tile_gradients<2>(sizes_, lines_, begin, end, vectors_, kernel_ + unit, sums_ + unit, to);
    }

  private:
    const Sizes sizes_;
    const float* const vectors_;
    const float* const kernel_;
    const float* const sums_;
    const Gradients to_;
    const Lines lines_;
    const std::vector<size_t> runs_;
};

}  // namespace xpsql::projection
