// SPDX-License-Identifier: MIT
// The CPU kernels against plain loops in double, at sizes that divide nothing; on one thread and on two, to the same
// bits.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headmix/backend/cpu/attention.hpp"
#include "headmix/backend/cpu/attention_backward.hpp"
#include "headmix/backend/cpu/gemm.hpp"
#include "headmix/backend/cpu/grouped_gemm.hpp"
#include "headmix/backend/cpu/grouped_outer.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/core/random.hpp"

// A count of malloc sees what operator new would hide. The sanitizers bring a malloc of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADMIX_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HEADMIX_TEST_SANITIZED
#endif
#endif
#if defined(__GLIBC__) && !defined(HEADMIX_TEST_SANITIZED)
#define HEADMIX_TEST_COUNTS_MALLOC
#include <atomic>
namespace {
std::atomic<long> malloc_calls{0};
}
extern "C" {
void* __libc_malloc(std::size_t);
void* malloc(std::size_t bytes) noexcept {
  malloc_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
}
#endif

namespace {

using namespace headmix;

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;

template <class T>
std::vector<T> numbers(Index n, std::uint64_t stream) {
  Random const random(7, stream);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    v[static_cast<std::size_t>(i)] = static_cast<T>(random.normal(static_cast<std::uint64_t>(i)));
  return v;
}

template <class T, class U>
double distance(std::vector<T> const& a, std::vector<U> const& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (std::isinf(y) && x == y) continue;
    double const d = std::abs(x - y) / (1 + std::abs(y));
    worst = d <= worst ? worst : d;  // a NaN stays
  }
  return worst;
}

/// Runs a kernel and returns how often it called malloc; 0 where that is not counted.
template <class F>
long mallocs(F&& f) {
#ifdef HEADMIX_TEST_COUNTS_MALLOC
  long const before = malloc_calls.load();
  f();
  return malloc_calls.load() - before;
#else
  f();
  return 0;
#endif
}

/// Room for `bytes`, at an address that is not aligned, so that kernels have to align.
struct scratch_room {
  explicit scratch_room(Index bytes)
      : memory(static_cast<std::size_t>(bytes) + 8), span(memory.data() + 8, static_cast<std::size_t>(bytes)) {}
  std::vector<std::byte> memory;
  std::span<std::byte> span;
};

// ---------------------------------------------------------------- products

template <class C, class A, class B>
std::vector<double> plain_product(view<C const> c, view<A const> a, view<B const> b, bool accumulate) {
  std::vector<double> sum;
  for (Index i = 0; i < c.rows; ++i)
    for (Index j = 0; j < c.cols; ++j) {
      double s = accumulate ? static_cast<double>(c(i, j)) : 0;
      for (Index k = 0; k < a.cols; ++k) s += static_cast<double>(a(i, k)) * static_cast<double>(b(k, j));
      sum.push_back(s);
    }
  return sum;
}

template <class T>
std::vector<T> values(view<T const> v) {
  std::vector<T> all;
  for (Index e = 0; e < v.count; ++e)
    for (Index i = 0; i < v.rows; ++i)
      for (Index j = 0; j < v.cols; ++j) all.push_back(v[e](i, j));
  return all;
}

/// A rows x cols view in one of four layouts; `room` must hold 4 * (rows + 1) * (cols + 1) elements.
template <class T>
view<T> laid_out(T* room, Index rows, Index cols, int layout) {
  if (layout == 1) return view<T>(room, cols, rows).transposed();
  view<T> v(room, rows, cols);
  if (layout == 2) v.row_stride = cols + 1;
  if (layout == 3) v.row_stride = 2 * cols + 2, v.col_stride = 2;
  return v;
}

template <class C, class A, class B>
void check_products(Index m, Index k, Index n, double bound) {
  thread_pool pool(2);
  serial one;
  for (int layouts = 0; layouts < 64; ++layouts) {
    auto const a = numbers<A>(4 * (m + 1) * (k + 1), 1);
    auto const b = numbers<B>(4 * (k + 1) * (n + 1), 2);
    auto const c = numbers<C>(4 * (m + 1) * (n + 1), 3);
    auto const va = laid_out(a.data(), m, k, layouts % 4);
    auto const vb = laid_out(b.data(), k, n, layouts / 4 % 4);
    for (bool accumulate : {false, true}) {
      auto first = c, second = c;
      auto const v1 = laid_out(first.data(), m, n, layouts / 16), v2 = laid_out(second.data(), m, n, layouts / 16);
      auto const expected = plain_product<C, A, B>(v1, va, vb, accumulate);
      CHECK(mallocs([&] { cpu::gemm(one, v1, va, vb, accumulate); }) == 0);
      CHECK(mallocs([&] { cpu::gemm(pool, v2, va, vb, accumulate); }) == 0);
      CHECK(distance(values<C>(v1), expected) < bound);
      CHECK(first == second);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("cpu gemm matches plain loops for every layout", T, float, double) {
  struct {
    Index m, k, n;
  } const sizes[] = {{1, 1, 1}, {1, 33, 65}, {65, 33, 1},   {7, 0, 5},
                     {0, 4, 3}, {3, 4, 0},   {131, 17, 70}, {70, 300, 33}};
  for (auto const& s : sizes) check_products<T, T, T>(s.m, s.k, s.n, 20 * tolerance<T>);
}

TEST_CASE("cpu gemm mixes element types") {
  check_products<double, float, double>(67, 70, 5, 1e-12);
  check_products<float, float, double>(67, 70, 5, 2e-5);
}

TEST_CASE_TEMPLATE("cpu gemm of many tiles gives the same bits on two threads and allocates nothing", T, float,
                   double) {
  Index const m = 300, k = 700, n = 530;
  auto const a = numbers<T>(4 * (m + 1) * (k + 1), 1), b = numbers<T>(k * n, 2);
  thread_pool pool(2);
  serial one;
  view<T const> const vb(b.data(), k, n);
  for (int layout : {0, 1, 3}) {
    std::vector<T> c(static_cast<std::size_t>(m * n)), d = c;
    view<T const> const va = laid_out(a.data(), m, k, layout);
    view<T> const vc(c.data(), m, n), vd(d.data(), m, n);
    for (bool accumulate : {false, true}) {
      auto const expected = plain_product<T, T, T>(vc, va, vb, accumulate);
      CHECK(mallocs([&] { cpu::gemm(one, vc, va, vb, accumulate); }) == 0);
      CHECK(mallocs([&] { cpu::gemm(pool, vd, va, vb, accumulate); }) == 0);
      CHECK(c == d);
      CHECK(distance(c, expected) < 50 * tolerance<T>);
    }
  }
}

// ---------------------------------------------------------------- threads

#ifdef HEADMIX_TEST_COUNTS_MALLOC
TEST_CASE("the count of mallocs counts") {
  std::vector<double> room;
  volatile std::size_t n = 1000;
  CHECK(mallocs([&] { room.resize(n); }) == 1);
}
#endif

TEST_CASE("thread pool runs every task once, nested calls too") {
  for (Index threads : {1, 2, 5}) {
    thread_pool pool(threads);
    CHECK(pool.concurrency() == threads);
    for (Index n : {0, 1, 2, 3, 100}) {
      std::vector<int> hits(static_cast<std::size_t>(n * 3), 0);
      pool.parallel_for(
          n, [&](Index i) { pool.parallel_for(3, [&](Index j) { ++hits[static_cast<std::size_t>(i * 3 + j)]; }); });
      for (int h : hits) CHECK(h == 1);
    }
  }
}

TEST_CASE("thread pool survives many short calls") {
  thread_pool pool(3);
  std::vector<long> sums(64, 0);
  long const calls = mallocs([&] {
    for (int round = 0; round < 20000; ++round)
      pool.parallel_for(5, [&](Index i) { ++sums[static_cast<std::size_t>(i * 8)]; });
  });
  for (std::size_t i = 0; i < 5; ++i) CHECK(sums[i * 8] == 20000);
  CHECK(calls == 0);
}

TEST_CASE("tasks that run at the same time have different workers") {
  thread_pool pool(2);
  std::vector<int> owner(2, 0), hits(1000, 0);
  bool shared = false;
  cpu::for_each_task(pool, 1000, [&](Index task, Index worker) {
    auto const w = static_cast<std::size_t>(worker);
    if (owner[w]++ != 0) shared = true;
    ++hits[static_cast<std::size_t>(task)];
    if (--owner[w] != 0) shared = true;
  });
  CHECK_FALSE(shared);
  for (int h : hits) CHECK(h == 1);
}

// ---------------------------------------------------------------- experts

namespace {

struct routing {
  Index rows, choices, experts;
  std::vector<Int> index, perm, offsets;
  view<Int const> perm_view() const { return {perm.data(), 1, static_cast<Index>(perm.size())}; }
  view<Int const> offsets_view() const { return {offsets.data(), 1, experts + 1}; }
};

/// Random experts, none to expert 1, every seventh slot to nobody when `holes`.
routing random_routing(Index rows, Index choices, Index experts, bool holes) {
  auto const slots = static_cast<std::size_t>(rows * choices);
  routing r{rows,
            choices,
            experts,
            std::vector<Int>(slots),
            std::vector<Int>(slots, -7),
            std::vector<Int>(static_cast<std::size_t>(experts + 1), -7)};
  Random const random(3);
  for (std::size_t i = 0; i < slots; ++i) {
    r.index[i] = static_cast<Int>(random.below(i, static_cast<std::uint64_t>(experts)));
    if (r.index[i] == 1) r.index[i] = 0;
    if (holes && i % 7 == 3) r.index[i] = -1;
  }
  cpu::sort_by_expert(view<Int>(r.perm.data(), 1, rows * choices), view<Int>(r.offsets.data(), 1, experts + 1),
                      view<Int const>(r.index.data(), rows, choices), uniform(1, rows));
  return r;
}

}  // namespace

TEST_CASE("expert order is a stable sort and leaves -1 out") {
  std::vector<Int> const index{2, 0, -1, 2, 0, 2};
  std::vector<Int> perm(6), offsets(5);
  cpu::sort_by_expert(view<Int>(perm.data(), 1, 6), view<Int>(offsets.data(), 1, 5),
                      view<Int const>(index.data(), 3, 2), uniform(1, 3));
  CHECK(offsets == std::vector<Int>{0, 2, 2, 5, 5});
  CHECK(perm == std::vector<Int>{1, 4, 0, 3, 5, 2});
}

TEST_CASE("expert order groups by sequence first, the slots of nobody behind all groups") {
  std::vector<Int> const index{1, 0, -1, 1, 0, 1, 1, -1}, sequences{0, 2, 2, 4};
  std::vector<Int> perm(8), offsets(7);
  cpu::sort_by_expert(view<Int>(perm.data(), 1, 8), view<Int>(offsets.data(), 1, 7),
                      view<Int const>(index.data(), 4, 2), ragged(sequences.data(), 3));
  CHECK(offsets == std::vector<Int>{0, 1, 3, 3, 3, 4, 6});
  CHECK(perm == std::vector<Int>{1, 0, 3, 4, 5, 6, 2, 7});

  offsets.resize(1);
  cpu::sort_by_expert(view<Int>(perm.data(), 1, 0), view<Int>(offsets.data(), 1, 1),
                      view<Int const>(index.data(), 0, 2), uniform(0, 0));
  CHECK(offsets == std::vector<Int>{0});
}

TEST_CASE_TEMPLATE("cpu grouped products match plain loops", T, float, double) {
  thread_pool pool(2);
  serial one;
  struct {
    Index rows, choices, experts, depth, width;
    bool holes;
  } const cases[] = {{37, 3, 5, 19, 23, true},
                     {700, 2, 4, 70, 150, false},
                     {1, 1, 3, 4, 4, false},
                     {0, 2, 3, 5, 6, false},
                     {300, 1, 2, 64, 200, true}};
  for (auto const& s : cases) {
    routing const r = random_routing(s.rows, s.choices, s.experts, s.holes);
    Index const slots = s.rows * s.choices;
    auto const x = numbers<T>(s.rows * s.depth, 1), w = numbers<T>(s.experts * s.depth * s.width, 2);
    auto const dy = numbers<T>(slots * s.width, 3), before = numbers<T>(s.experts * s.depth * s.width, 4);
    view<T const> const vx(x.data(), s.rows, s.depth), vdy(dy.data(), slots, s.width);
    for (bool transposed : {false, true}) {
      view<T const> vw(w.data(), s.experts, s.depth, s.width);
      if (transposed) vw = view<T const>(w.data(), s.experts, s.width, s.depth).transposed();
      std::vector<double> expected(static_cast<std::size_t>(slots * s.width), 0);
      for (Index i = 0; i < slots; ++i)
        if (Index const e = r.index[static_cast<std::size_t>(i)]; e >= 0)
          for (Index h = 0; h < s.width; ++h)
            for (Index d = 0; d < s.depth; ++d)
              expected[static_cast<std::size_t>(i * s.width + h)] +=
                  static_cast<double>(vx(i / s.choices, d)) * static_cast<double>(vw[e](d, h));
      auto y1 = numbers<T>(slots * s.width, 9), y2 = numbers<T>(slots * s.width, 10);
      scratch_room room1(cpu::grouped_scratch_bytes<T>(s.depth, s.width, 1)),
          room2(cpu::grouped_scratch_bytes<T>(s.depth, s.width, 2));
      CHECK(mallocs([&] {
              cpu::grouped_gemm(one, view<T>(y1.data(), slots, s.width), vx, vw, r.perm_view(), r.offsets_view(),
                                s.choices, room1.span);
            }) == 0);
      CHECK(mallocs([&] {
              cpu::grouped_gemm(pool, view<T>(y2.data(), slots, s.width), vx, vw, r.perm_view(), r.offsets_view(),
                                s.choices, room2.span);
            }) == 0);
      CHECK(distance(y1, expected) < 20 * tolerance<T>);
      CHECK(y1 == y2);

      scratch_room outer1(cpu::grouped_outer_scratch_bytes<T>(s.depth, 1)),
          outer2(cpu::grouped_outer_scratch_bytes<T>(s.depth, 2));
      for (bool accumulate : {false, true}) {
        auto g1 = before, g2 = before;
        auto const stack = [&](std::vector<T>& g) {
          return transposed ? view<T>(g.data(), s.experts, s.width, s.depth).transposed()
                            : view<T>(g.data(), s.experts, s.depth, s.width);
        };
        std::vector<double> sum;
        for (T v : values<T>(stack(g1))) sum.push_back(accumulate ? static_cast<double>(v) : 0);
        for (Index i = 0; i < slots; ++i)
          if (Index const e = r.index[static_cast<std::size_t>(i)]; e >= 0)
            for (Index d = 0; d < s.depth; ++d)
              for (Index h = 0; h < s.width; ++h)
                sum[static_cast<std::size_t>((e * s.depth + d) * s.width + h)] +=
                    static_cast<double>(vx(i / s.choices, d)) * static_cast<double>(vdy(i, h));
        CHECK(mallocs([&] {
                cpu::grouped_outer(one, stack(g1), vx, vdy, r.perm_view(), r.offsets_view(), s.choices, 1, accumulate,
                                   outer1.span);
              }) == 0);
        CHECK(mallocs([&] {
                cpu::grouped_outer(pool, stack(g2), vx, vdy, r.perm_view(), r.offsets_view(), s.choices, 1, accumulate,
                                   outer2.span);
              }) == 0);
        CHECK(distance(values<T>(stack(g1)), sum) < 50 * tolerance<T>);
        CHECK(g1 == g2);
      }
    }
  }
}

TEST_CASE("cpu grouped products of rows that are no successive elements") {
  routing const r = random_routing(250, 2, 3, true);
  auto const x = numbers<float>(4 * 251 * 20, 1), w = numbers<float>(3 * 19 * 23, 2);
  view<float const> const vw(w.data(), 3, 19, 23);
  serial one;
  scratch_room room(cpu::grouped_scratch_bytes<float>(19, 23, 1));
  for (int layout : {1, 3}) {
    std::vector<float> near_x = values(laid_out(x.data(), 250, 19, layout)), near_y(500 * 23), y(4 * 501 * 24);
    view<float> const vy = laid_out(y.data(), 500, 23, layout);
    cpu::grouped_gemm(one, vy, laid_out(x.data(), 250, 19, layout), vw, r.perm_view(), r.offsets_view(), 2, room.span);
    cpu::grouped_gemm(one, view<float>(near_y.data(), 500, 23), view<float const>(near_x.data(), 250, 19), vw,
                      r.perm_view(), r.offsets_view(), 2, room.span);
    CHECK(values<float>(vy) == near_y);
  }
}

// ---------------------------------------------------------------- attention

TEST_CASE("the exponential of scores") {
  using vector = cpu::detail::vector<float>;
  auto const e = [](float x) { return cpu::detail::exp_of_negative(vector{} + x)[0]; };
  for (float x = 0; x > -86; x -= 0.37f) CHECK(e(x) == doctest::Approx(std::exp(x)).epsilon(1e-5));
  CHECK(e(0) == 1);
  CHECK(e(-100) == 0);
  CHECK(e(-std::numeric_limits<float>::infinity()) == 0);
  CHECK(std::isnan(e(std::numeric_limits<float>::quiet_NaN())));
}

namespace {

/// A mask without a range, that hides every key from some positions.
struct every_third {
  static bool sees(Index t, Index s) { return t % 4 != 1 && s <= t + 2 && s % 3 != 1; }
};
/// The same with a range.
struct every_third_before {
  static bool sees(Index t, Index s) { return t % 4 != 1 && s % 3 != 1; }
  static key_range range(Index t, Index keys) { return {t / 2, t + 1 < keys ? t + 1 : keys}; }
};

struct extents_case {
  std::vector<Int> queries, keys;
  Index rows_per_token, heads, kv_heads, head_dim;
};

template <AttentionMask M>
bool allowed(Index t, Index s, Index keys) {
  key_range const r = visible_keys<M>(t, keys);
  return s >= r.begin && s < r.end && M::sees(t, s);
}

/// Everything of one attention and its gradient, in double and by the formulas.
struct plain_attention {
  std::vector<double> o, lse, d_q, d_k, d_v;

  template <AttentionMask M, class T>
  static plain_attention of(attention_extents const& x, view<T const> q, view<T const> k, view<T const> v,
                            view<T const> d_o) {
    auto const zeros = [](Index n) { return std::vector<double>(static_cast<std::size_t>(n), 0.0); };
    plain_attention r{zeros(q.size()), zeros(q.rows * x.heads), zeros(q.size()), zeros(k.size()), zeros(k.size())};
    double const scale = 1 / std::sqrt(static_cast<double>(x.head_dim));
    for (Index b = 0; b < x.queries.count; ++b)
      for (Index row = x.queries.begin(b) * x.rows_per_token; row < x.queries.end(b) * x.rows_per_token; ++row)
        for (Index h = 0; h < x.heads; ++h) {
          Index const n = x.keys.length(b), p = h * x.kv_heads / x.heads;
          Index const t = row / x.rows_per_token - x.queries.begin(b) + n - x.queries.length(b);
          auto const dot = [&](view<T const> left, Index i, Index ci, view<T const> right, Index j, Index cj) {
            double sum = 0;
            for (Index c = 0; c < x.head_dim; ++c)
              sum += static_cast<double>(left(i, ci + c)) * static_cast<double>(right(j, cj + c));
            return sum;
          };
          Index const first = x.keys.begin(b), qc = h * x.head_dim, kc = p * x.head_dim;
          std::vector<double> e = zeros(n), dp = zeros(n);
          double total = 0, delta = 0;
          for (Index s = 0; s < n; ++s)
            if (allowed<M>(t, s, n))
              total += e[static_cast<std::size_t>(s)] = std::exp(scale * dot(q, row, qc, k, first + s, kc));
          r.lse[static_cast<std::size_t>(row * x.heads + h)] = std::log(total);
          if (total == 0) continue;
          for (Index s = 0; s < n; ++s) {
            auto const i = static_cast<std::size_t>(s);
            e[i] /= total;
            dp[i] = dot(d_o, row, qc, v, first + s, kc);
            delta += e[i] * dp[i];
          }
          for (Index s = 0; s < n; ++s)
            for (Index c = 0; c < x.head_dim; ++c) {
              auto const i = static_cast<std::size_t>(s);
              auto const at_q = static_cast<std::size_t>(row * q.cols + qc + c),
                         at_k = static_cast<std::size_t>((first + s) * k.cols + kc + c);
              double const ds = e[i] * (dp[i] - delta) * scale;
              r.o[at_q] += e[i] * static_cast<double>(v(first + s, kc + c));
              r.d_v[at_k] += e[i] * static_cast<double>(d_o(row, qc + c));
              r.d_q[at_q] += ds * static_cast<double>(k(first + s, kc + c));
              r.d_k[at_k] += ds * static_cast<double>(q(row, qc + c));
            }
        }
    return r;
  }
};

template <AttentionMask M, class T>
void check_attention(extents_case const& s) {
  auto const count = static_cast<Index>(s.queries.size()) - 1;
  attention_extents const x{
      ragged(s.queries.data(), count), ragged(s.keys.data(), count), s.rows_per_token, s.heads, s.kv_heads, s.head_dim};
  Index const rows = x.queries.rows * x.rows_per_token, wide = x.heads * x.head_dim, narrow = x.kv_heads * x.head_dim;
  auto const q = numbers<T>(rows * wide, 1), k = numbers<T>(x.keys.rows * narrow, 2),
             v = numbers<T>(x.keys.rows * narrow, 3), d_o = numbers<T>(rows * wide, 4);
  view<T const> const vq(q.data(), rows, wide), vk(k.data(), x.keys.rows, narrow), vv(v.data(), x.keys.rows, narrow),
      vdo(d_o.data(), rows, wide);
  auto const plain = plain_attention::of<M, T>(x, vq, vk, vv, vdo);

  struct results {
    std::vector<T> o, lse, d_q, d_k, d_v;
    bool operator==(results const&) const = default;
  };
  auto const run = [&](auto& executor) {
    results r{numbers<T>(rows * wide, 5), numbers<T>(rows * x.heads, 6), numbers<T>(rows * wide, 7),
              numbers<T>(x.keys.rows * narrow, 8), numbers<T>(x.keys.rows * narrow, 9)};
    view<T> const vo(r.o.data(), rows, wide), vl(r.lse.data(), rows, x.heads);
    attention_scores<T> const scores{1 / std::sqrt(static_cast<double>(x.head_dim))};
    attention_forward<T> const f{x, vq, vk, vv, vo, vl, {}, scores};
    attention_backward<T> const g{x,
                                  vq,
                                  vk,
                                  vv,
                                  vo,
                                  vdo,
                                  vl,
                                  view<T>(r.d_q.data(), rows, wide),
                                  view<T>(r.d_k.data(), x.keys.rows, narrow),
                                  view<T>(r.d_v.data(), x.keys.rows, narrow),
                                  {},
                                  scores};
    scratch_room forward(cpu::attention_scratch_bytes<T>(x, executor.concurrency())),
        backward(cpu::attention_gradient_scratch_bytes(g, executor.concurrency()));
    CHECK(mallocs([&] { cpu::attention<M>(executor, f, forward.span); }) == 0);
    CHECK(mallocs([&] { cpu::attention_gradient<M>(executor, g, backward.span); }) == 0);
    return r;
  };
  serial one;
  thread_pool pool(2);
  results const r = run(one);
  CHECK(distance(r.o, plain.o) < tolerance<T>);
  CHECK(distance(r.lse, plain.lse) < tolerance<T>);
  CHECK(distance(r.d_q, plain.d_q) < 20 * tolerance<T>);
  CHECK(distance(r.d_k, plain.d_k) < 20 * tolerance<T>);
  CHECK(distance(r.d_v, plain.d_v) < 20 * tolerance<T>);
  CHECK(run(pool) == r);
}

std::vector<extents_case> attention_cases() {
  return {
      {{0, 1}, {0, 1}, 1, 1, 1, 4},                            // a single row
      {{0, 0, 5, 5}, {0, 0, 7, 9}, 1, 2, 1, 3},                // empty sequences, keys without queries
      {{0, 13, 50, 51, 90}, {0, 13, 50, 51, 90}, 3, 4, 2, 5},  // ragged, mixture of heads, grouped queries
      {{0, 3, 10}, {0, 40, 75}, 1, 4, 2, 8},                   // decoder steps: fewer queries than keys
      {{0, 30}, {0, 11}, 1, 1, 1, 6},     // more queries than keys: the first see nothing when causal
      {{0, 301}, {0, 301}, 2, 1, 1, 16},  // several blocks and tiles of one list
      {{0, 8}, {0, 0}, 2, 1, 1, 4},       // no keys at all
      {{0, 64, 128, 192}, {0, 64, 128, 192}, 1, 4, 4, 32},
      {{0, 20}, {0, 20}, 1, 2, 2, 100},  // heads of several panels, the last one not whole
  };
}

}  // namespace

TEST_CASE_TEMPLATE("cpu attention matches the plain formula, full", T, float, double) {
  for (auto const& s : attention_cases()) check_attention<full, T>(s);
}
TEST_CASE_TEMPLATE("cpu attention matches the plain formula, causal", T, float, double) {
  for (auto const& s : attention_cases()) check_attention<causal, T>(s);
}
TEST_CASE_TEMPLATE("cpu attention matches the plain formula, sliding window", T, float, double) {
  for (auto const& s : attention_cases()) {
    check_attention<sliding_window<5>, T>(s);
    check_attention<sliding_window<1>, T>(s);
  }
}
TEST_CASE_TEMPLATE("cpu attention matches the plain formula, masks of the user's", T, float, double) {
  for (auto const& s : attention_cases()) {
    check_attention<every_third, T>(s);
    check_attention<every_third_before, T>(s);
  }
}

TEST_CASE("cpu attention keeps keys in tiles wider than one and in uniform batches") {
  std::vector<Int> const offsets{0, 700};
  check_attention<causal, float>({{0, 700}, {0, 700}, 1, 1, 1, 8});
  check_attention<sliding_window<300>, double>({{0, 700}, {0, 700}, 1, 1, 1, 8});

  // Uniform extents describe the same problem as offsets do.
  std::vector<Int> const thirds{0, 21, 42, 63};
  auto const q = numbers<float>(63 * 8, 1), k = numbers<float>(63 * 4, 2), v = numbers<float>(63 * 4, 3);
  std::vector<float> o(63 * 8), o2(63 * 8);
  serial one;
  attention_extents x{ragged(thirds.data(), 3), ragged(thirds.data(), 3), 1, 2, 1, 4};
  scratch_room room(cpu::attention_scratch_bytes<float>(x, 1));
  view<float const> const vq(q.data(), 63, 8), vk(k.data(), 63, 4), vv(v.data(), 63, 4);
  cpu::attention<causal>(one, attention_forward<float>{x, vq, vk, vv, view<float>(o.data(), 63, 8), {}, {}, {}},
                         room.span);
  x.queries = x.keys = uniform(3, 21);
  cpu::attention<causal>(one, attention_forward<float>{x, vq, vk, vv, view<float>(o2.data(), 63, 8), {}, {}, {}},
                         room.span);
  CHECK(o == o2);
}

TEST_CASE("cpu attention gradients that are not wanted are left out") {
  attention_extents const x{uniform(2, 9), uniform(2, 9), 2, 2, 1, 4};
  auto const q = numbers<double>(36 * 8, 1), k = numbers<double>(18 * 4, 2), v = numbers<double>(18 * 4, 3),
             d_o = numbers<double>(36 * 8, 4);
  std::vector<double> o(36 * 8), lse(36 * 2);
  serial one;
  view<double const> const vq(q.data(), 36, 8), vk(k.data(), 18, 4), vv(v.data(), 18, 4), vdo(d_o.data(), 36, 8);
  view<double> const vo(o.data(), 36, 8), vl(lse.data(), 36, 2);
  scratch_room room(cpu::attention_gradient_scratch_bytes(
      attention_backward<double>{x, vq, vk, vv, vo, vdo, vl, {}, {}, {}, {}, {}}, 1));
  cpu::attention<causal>(one, attention_forward<double>{x, vq, vk, vv, vo, vl, {}, {}}, room.span);
  auto const run = [&](int wanted) {
    std::vector<double> g(36 * 8 + 2 * 18 * 4, -1.0);
    attention_backward<double> a{x, vq, vk, vv, vo, vdo, vl, {}, {}, {}, {}, {}};
    if (wanted & 1) a.d_q = view<double>(g.data(), 36, 8);
    if (wanted & 2) a.d_k = view<double>(g.data() + 36 * 8, 18, 4);
    if (wanted & 4) a.d_v = view<double>(g.data() + 36 * 8 + 18 * 4, 18, 4);
    cpu::attention_gradient<causal>(one, a, room.span);
    return g;
  };
  auto const all = run(7);
  for (int wanted = 0; wanted < 8; ++wanted) {
    auto const some = run(wanted);
    for (std::size_t i = 0; i < some.size(); ++i) {
      int const which = i < 36 * 8 ? 1 : i < 36 * 8 + 18 * 4 ? 2 : 4;
      CHECK(some[i] == (wanted & which ? all[i] : -1.0));
    }
  }
}

TEST_CASE("cpu attention reads keys and values that lie between other columns") {
  attention_extents const x{uniform(1, 40), uniform(1, 40), 1, 2, 2, 4};
  auto const q = numbers<float>(40 * 8, 1), kv = numbers<float>(40 * 16, 2);
  std::vector<float> k(40 * 8), v(40 * 8), o(40 * 8), o2(40 * 8);
  view<float const> const both(kv.data(), 40, 16), vq(q.data(), 40, 8);
  for (Index i = 0; i < 40; ++i)
    for (Index j = 0; j < 8; ++j) {
      k[static_cast<std::size_t>(i * 8 + j)] = both(i, j);
      v[static_cast<std::size_t>(i * 8 + j)] = both(i, 8 + j);
    }
  serial one;
  scratch_room room(cpu::attention_scratch_bytes<float>(x, 1));
  cpu::attention<full>(
      one,
      attention_forward<float>{
          x, vq, both.middle_cols(0, 8), both.middle_cols(8, 8), view<float>(o.data(), 40, 8), {}, {}, {}},
      room.span);
  cpu::attention<full>(one,
                       attention_forward<float>{x,
                                                vq,
                                                view<float const>(k.data(), 40, 8),
                                                view<float const>(v.data(), 40, 8),
                                                view<float>(o2.data(), 40, 8),
                                                {},
                                                {},
                                                {}},
                       room.span);
  CHECK(o == o2);
}
