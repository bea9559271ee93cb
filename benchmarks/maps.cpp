// Hash maps of other libraries as a store of rows: nanoseconds a key of lookups and updates.
//
//     maps DIM ROUNDS KEYS NAME=BATCHES ...
//
// KEYS is a file of uint64, BATCHES one of batches of keys one after the other: first the size of a batch, then the keys.
// std::unordered_map is always there; boost's and ankerl's maps where the compiler finds their headers.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

#if __has_include(<boost/unordered/unordered_flat_map.hpp>)
#include <boost/unordered/unordered_flat_map.hpp>
#define HAS_BOOST
#endif
#if __has_include(<ankerl/unordered_dense.h>)
#include <ankerl/unordered_dense.h>
#define HAS_ANKERL
#endif

using Keys = std::vector<std::uint64_t>;

Keys read(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    Keys keys(static_cast<std::size_t>(file.tellg()) / sizeof(std::uint64_t));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(keys.data()), static_cast<std::streamsize>(keys.size() * sizeof(std::uint64_t)));
    if (!file) std::exit(2);
    return keys;
}

template <class Step>
double nanoseconds(const Keys& work, int rounds, Step step) {
    std::vector<double> times;
    const std::size_t batch = work[0], keys = work.size() - 1;
    for (int round = 0; round < rounds; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (std::size_t at = 1; at < work.size(); at += batch) step(&work[at], std::min(batch, work.size() - at));
        times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / keys);
    }
    std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
    return times[rounds / 2];
}

// A lookup copies rows into a matrix; an update adds a gradient to each row where it is.
template <class Map>
void measure(const char* library, int dim, int rounds, const Keys& keys, int count, char** batches) {
    Map map;
    map.reserve(keys.size());
    for (const auto key : keys) map[key] = {};
    for (int i = 0; i < count; ++i) {
        const std::string given = batches[i], name = given.substr(0, given.find('='));
        const Keys work = read(given.substr(given.find('=') + 1));
        std::vector<typename Map::mapped_type> rows(work[0]);
        const double lookup = nanoseconds(work, rounds, [&](const std::uint64_t* some, std::size_t n) {
            for (std::size_t k = 0; k < n; ++k) rows[k] = map.find(some[k])->second;
        });
        const double update = nanoseconds(work, rounds, [&](const std::uint64_t* some, std::size_t n) {
            for (std::size_t k = 0; k < n; ++k) {
                auto& row = map.find(some[k])->second;
                for (std::size_t d = 0; d < row.size(); ++d) row[d] += rows[k][d] * 1e-3f + 1e-3f;
            }
        });
        std::printf("%s: lookup %d %s %.1f ns/key\n", library, dim, name.c_str(), lookup);
        std::printf("%s: update %d %s %.1f ns/key\n", library, dim, name.c_str(), update);
    }
}

template <std::size_t dim>
void all(int rounds, const Keys& keys, int count, char** batches) {
    using Row = std::array<float, dim>;
    measure<std::unordered_map<std::uint64_t, Row>>("std::unordered_map", dim, rounds, keys, count, batches);
#ifdef HAS_BOOST
    measure<boost::unordered_flat_map<std::uint64_t, Row>>("boost::unordered_flat_map", dim, rounds, keys, count, batches);
#endif
#ifdef HAS_ANKERL
    measure<ankerl::unordered_dense::map<std::uint64_t, Row>>("ankerl::unordered_dense", dim, rounds, keys, count, batches);
#endif
}

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    const int dim = std::atoi(argv[1]), rounds = std::atoi(argv[2]);
    const Keys keys = read(argv[3]);
    if (dim == 4) all<4>(rounds, keys, argc - 4, argv + 4);
    else if (dim == 16) all<16>(rounds, keys, argc - 4, argv + 4);
    else return 2;
}
