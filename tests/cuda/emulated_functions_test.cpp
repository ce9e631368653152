// SPDX-License-Identifier: MIT
// The functions of the emulated device.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cuda/emulated_probe.hpp"
#include "headmix/core/random.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

bfloat16 random_number(std::uint64_t stream, Index i) {
  return bfloat16(Random(3, stream).uniform(static_cast<std::uint64_t>(i)) - 0.5f);
}

std::uint32_t bits(bfloat16 low, bfloat16 high) { return low.bits | std::uint32_t{high.bits} << 16; }

}  // namespace

TEST_CASE("cuda, emulated: every thread of every block runs once and knows its place") {
  for (Index blocks : {0, 1, 5}) {
    std::vector<int> alone(static_cast<std::size_t>(blocks * 96 + 1), 0), together = alone;
    auto const mark = [](std::vector<int>& into) {
      return [data = into.data()](Emulated& d) {
        bool const consistent = d.thread() == d.warp() * 32 + d.lane() && d.blocks() >= 1 && d.block() < d.blocks();
        int* const mine = data + d.block() * 96 + d.thread();
        d.store(mine, d.load(mine) + (consistent ? 1 : 100));
      };
    };
    run_alone<96>(mark(alone), blocks);
    run<96>(mark(together), blocks);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      int const expected = i + 1 < alone.size() ? 1 : 0;
      CHECK(alone[i] == expected);
      CHECK(together[i] == expected);
    }
  }
}

TEST_CASE("cuda, emulated: the host's side") {
  Emulated::queue queue, copy = queue;
  CHECK(queue.workspace().size() == std::size_t{1} << 20);
  CHECK(queue.workspace().data() == copy.workspace().data());
  CHECK(queue.processors() > 0);
  CHECK_FALSE(queue.gemm(1, 2, 3, false));
  array_of<int> device(3);
  std::array<int, 3> const there{1, 2, 3};
  std::array<int, 3> back{};
  queue.upload(device.data(), there.data(), sizeof there);
  queue.download(back.data(), device.data(), sizeof back);
  queue.upload(nullptr, nullptr, 0);
  queue.synchronize();
  CHECK(back == there);
}

TEST_CASE("cuda, emulated: memory is zeroed, aligned and movable") {
  Emulated::memory empty, a(1000), b = std::move(a);
  CHECK(empty.bytes().empty());
  CHECK(a.bytes().empty());
  CHECK(b.bytes().size() == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(b.bytes().data()) % 256 == 0);
  for (std::byte x : b.bytes()) CHECK(x == std::byte{0});
  CHECK(b.as<int>(8) == b.as<int>() + 2);
  empty = std::move(b);
  CHECK(empty.bytes().size() == 1000);
}

TEST_CASE("cuda, emulated: arithmetic") {
  run_alone([](Emulated& d) {
    if (d.exp2(3.f) != 8.f || d.log2(8.f) != 3.f) throw std::logic_error("exp2");
    if (d.exp2(-INFINITY) != 0.f) throw std::logic_error("exp2 of -inf");
  });
}

TEST_CASE("cuda, emulated: pointers to shared memory work like pointers") {
  array_of<float> y(16);
  run([y = y.data()](Emulated& d) {
    if (d.thread() != 0) return;
    auto s = d.shared<float>(64);
    s[0] = 1.f;
    s[1] = 2;
    s[2] = s[0] + s[1];
    *(s + 3) = s[2];
    s[3] += 4.f;
    s[3] -= 1.f;
    s[3] *= 2.f;
    s[3] /= 4.f;
    auto p = s;
    p += 2;
    ++p;
    Emulated::shared_pointer<float const> const q = p;
    float const three = *q;
    auto n = d.shared<std::int32_t>(0);
    n[0] = 5;
    n[0]++;
    ++n[0];
    n[0] |= 8;
    auto h = d.shared<bfloat16>(32);
    h[0] = bfloat16(1.5f);
    h[1] = h[0];
    d.store(y, s[0]);
    d.store(y + 1, s[2]);
    d.store(y + 2, three);
    d.store(y + 3, static_cast<float>(h[1]));
    d.store(y + 4, static_cast<float>(n[0]));
    d.store(y + 5, static_cast<float>(p - s));
    d.store(y + 6, p == s + 3 && s < p && p != s ? 1.f : 0.f);
    d.store(y + 7, *&s[1]);
    d.store16(s + 4, d.load16(s));
    d.store16(y + 8, d.load16(&s[4]));
    d.store16(y + 12, d.load16(y + 8));
  });
  std::vector<float> const expected{1, 3, 3, 1.5f, 15, 3, 1, 2, 1, 2, 3, 3, 1, 2, 3, 3};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(y[i] == expected[i]);
}

TEST_CASE_TEMPLATE("cuda, emulated: shuffles", T, float, double, bfloat16, std::int32_t, std::int64_t, bool) {
  constexpr std::size_t n = 64;
  array_of<T> y(2 * n);
  auto const value = [](int i) { return static_cast<T>(static_cast<float>(i % 50)); };
  run<64>([=, y = y.data()](Emulated& d) {
    int const t = d.thread();
    d.store(y + t, d.shuffle_xor(value(t), 5));
    d.store(y + n + t, d.shuffle(value(t), (d.lane() + 3) % 32));
  });
  for (int t = 0; t < 64; ++t) {
    int const warp = t / 32 * 32, lane = t % 32;
    auto const at = [&](std::size_t part) { return y[part * n + static_cast<std::size_t>(t)]; };
    CHECK(at(0) == value(t ^ 5));
    CHECK(at(1) == value(warp + (lane + 3) % 32));
  }
}

TEST_CASE("cuda, emulated: a ballot has a bit for each lane") {
  array_of<std::uint32_t> y(64);
  run<64>([y = y.data()](Emulated& d) {
    d.store(y + d.thread(), d.ballot(d.warp() == 0 ? d.lane() % 3 == 0 : d.lane() == 31));
  });
  std::uint32_t thirds = 0;
  for (int l = 0; l < 32; l += 3) thirds |= 1u << l;
  for (std::size_t t = 0; t < 64; ++t) CHECK(y[t] == (t < 32 ? thirds : 0x80000000u));
}

TEST_CASE("cuda, emulated: the largest and the smallest number of a warp") {
  array_of<std::uint32_t> largest(64), smallest(64);
  auto const value = [](int t) { return static_cast<std::uint32_t>((t * 7 + 3) % 32) + (t < 32 ? 0u : 0x80000000u); };
  run<64>([=, largest = largest.data(), smallest = smallest.data()](Emulated& d) {
    d.store(largest + d.thread(), d.redux_max(value(d.thread())));
    d.store(smallest + d.thread(), d.redux_min(value(d.thread())));
  });
  for (std::size_t t = 0; t < 64; ++t) {
    CHECK(largest[t] == (t < 32 ? 31u : 0x8000001Fu));
    CHECK(smallest[t] == (t < 32 ? 0u : 0x80000000u));
  }
}

TEST_CASE_TEMPLATE("cuda, emulated: sums over the threads before one", T, std::int32_t, std::int64_t) {
  constexpr int n = 96, each = 3;
  array_of<T> before(n), total(n), of_block(n * each);
  auto const value = [](int i) { return static_cast<T>(i % 7 - 2); };
  run<n>([=, before = before.data(), total = total.data(), of_block = of_block.data()](Emulated& d) {
    T sum{}, values[each];
    d.store(before + d.thread(), d.warp_exclusive_sum(value(d.thread()), sum));
    d.store(total + d.thread(), sum);
    for (int i = 0; i < each; ++i) values[i] = value(each * d.thread() + i);
    d.block_exclusive_sum<n>(values);
    for (int i = 0; i < each; ++i) d.store(of_block + each * d.thread() + i, values[i]);
  });
  T sum{};
  for (int i = 0; i < n * each; sum += value(i++)) CHECK(of_block[static_cast<std::size_t>(i)] == sum);
  for (int t = 0; t < n; ++t) {
    int const first = t / 32 * 32;
    T expected{}, all{};
    for (int i = first; i < first + 32; ++i) {
      if (i < t) expected += value(i);
      all += value(i);
    }
    CHECK(before[static_cast<std::size_t>(t)] == expected);
    CHECK(total[static_cast<std::size_t>(t)] == all);
  }
}

TEST_CASE("cuda, emulated: a sum over a block is a barrier") {
  array_of<int> y(64);
  run<64>([y = y.data()](Emulated& d) {
    int one[1] = {1};
    auto const s = d.shared<int>(0);
    s[d.thread()] = d.thread();
    d.block_exclusive_sum<64>(one);
    int const other = s[63 - d.thread()];
    d.store(y + d.thread(), other + one[0]);
  });
  for (std::size_t t = 0; t < 64; ++t) CHECK(y[t] == 63);
}

TEST_CASE("cuda, emulated: barriers order a sum over a block of any size") {
  auto const check = [](auto threads) {
    constexpr int n = decltype(threads)::value;
    array_of<float> y(n);
    run<n, 4 * n>([y = y.data()](Emulated& d) {
      auto s = d.shared<float>(0);
      s[d.thread()] = static_cast<float>(d.thread());
      for (int stride = 1; stride < n; stride *= 2) {
        d.sync();
        if (d.thread() % (2 * stride) == 0 && d.thread() + stride < n) s[d.thread()] += s[d.thread() + stride];
      }
      d.sync();
      d.store(y + d.thread(), s[0]);
    });
    for (std::size_t t = 0; t < n; ++t) CHECK(y[t] == static_cast<float>(n * (n - 1) / 2));
  };
  check(std::integral_constant<int, 32>());
  check(std::integral_constant<int, 96>());
  check(std::integral_constant<int, 1024>());
}

TEST_CASE("cuda, emulated: copies land when their group is waited for") {
  array_of<std::int32_t> x(16);
  array_of<std::int32_t> y(48);
  for (std::size_t i = 0; i < 16; ++i) x[i] = static_cast<std::int32_t>(i + 1);
  run([x = x.data(), y = y.data()](Emulated& d) {
    if (d.thread() != 0) return;
    auto s = d.shared<std::int32_t>(0);
    d.cp_async16(s, x, true);
    d.cp_async_commit();
    d.cp_async16(s + 4, x + 4, true);
    d.cp_async16(s + 8, x + 8, false);
    d.cp_async_commit();
    d.cp_async_commit();  // empty groups count
    d.cp_async16(s + 12, nullptr, false);
    d.cp_async_commit();
    d.cp_async_wait<3>();
    d.store16(y, d.load16(s));
    d.store(x + 4, 100);  // the second group may be read as late as at its wait
    d.cp_async_wait<2>();
    d.store16(y + 4, d.load16(s + 4));
    d.store16(y + 8, d.load16(s + 8));
    d.cp_async_wait<0>();
    d.store16(y + 12, d.load16(s + 12));
    d.cp_async_wait<0>();
  });
  std::vector<std::int32_t> const expected{1, 2, 3, 4, 100, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(y[i] == expected[i]);
}

TEST_CASE("cuda, emulated: ldmatrix_x4 gives fragments as the PTX ISA draws them") {
  // Four matrices, 8 x 8, whose rows lie at arbitrary multiples of 16 bytes.
  array_of<std::uint32_t> y(256);
  auto const element = [](int matrix, int row, int col) { return bfloat16(matrix * 64 + row * 8 + col); };
  auto const place = [](int lane) { return (lane * 5 % 32) * 8; };
  run<32, 512>([=, y = y.data()](Emulated& d) {
    auto s = d.shared<bfloat16>(0);
    for (int col = 0; col < 8; ++col) s[place(d.lane()) + col] = element(d.lane() / 8, d.lane() % 8, col);
    d.sync_warp();
    auto const plain = d.ldmatrix_x4(s + place(d.lane()));
    auto const transposed = d.ldmatrix_x4_trans(s + place(d.lane()));
    for (int i = 0; i < 4; ++i) {
      d.store(y + 4 * d.lane() + i, plain.word[i]);
      d.store(y + 128 + 4 * d.lane() + i, transposed.word[i]);
    }
  });
  for (int l = 0; l < 32; ++l) {
    for (int m = 0; m < 4; ++m) {
      auto const i = static_cast<std::size_t>(4 * l + m);
      CHECK(y[i] == bits(element(m, l / 4, l % 4 * 2), element(m, l / 4, l % 4 * 2 + 1)));
      CHECK(y[128 + i] == bits(element(m, l % 4 * 2, l / 4), element(m, l % 4 * 2 + 1, l / 4)));
    }
  }
}

TEST_CASE("cuda, emulated: mma_m16n8k16 takes fragments as the PTX ISA draws them") {
  // Registers filled by the ISA's text, for mma.m16n8k16: groupID = lane >> 2, threadID_in_group = lane % 4.
  float a[16][16], b[16][8], c[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) a[i][j] = static_cast<float>(random_number(0, 16 * i + j));
    for (int j = 0; j < 8; ++j) b[i][j] = static_cast<float>(random_number(1, 8 * i + j));
    for (int j = 0; j < 8; ++j) c[i][j] = static_cast<float>(random_number(2, 8 * i + j));
  }
  float expected[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      expected[i][j] = c[i][j];
      for (int k = 0; k < 16; ++k) expected[i][j] += a[i][k] * b[k][j];
    }
  }
  struct lane_registers {
    words<4> a;
    words<2> b;
    float c[4];
  };
  lane_registers registers[32];
  for (int lane = 0; lane < 32; ++lane) {
    int const group = lane >> 2, in_group = lane % 4;
    auto& r = registers[lane];
    bfloat16 fragment[8];
    for (int i = 0; i < 8; ++i) {
      int const row = (0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8;
      int const col = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
      fragment[i] = bfloat16(a[row][col]);
    }
    for (int i = 0; i < 4; ++i) r.a.word[i] = bits(fragment[2 * i], fragment[2 * i + 1]);
    for (int i = 0; i < 4; ++i) {
      int const row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
      fragment[i] = bfloat16(b[row][group]);
    }
    for (int i = 0; i < 2; ++i) r.b.word[i] = bits(fragment[2 * i], fragment[2 * i + 1]);
    for (int i = 0; i < 4; ++i) r.c[i] = c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
  }
  run([r = &registers[0]](Emulated& d) { d.mma_m16n8k16(r[d.lane()].c, r[d.lane()].a, r[d.lane()].b); });
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      int const row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
      CHECK(registers[lane].c[i] == expected[row][lane % 4 * 2 + (i & 1)]);
    }
  }
}

TEST_CASE("cuda, emulated: products of matrices that lie in shared memory in any order") {
  // c = a b in all four orders: either operand lies as rows of k, or as columns of k, which the loads transpose.
  for (int order = 0; order < 4; ++order) {
    bool const a_transposed = order % 2 == 1, b_transposed = order / 2 == 1;
    array_of<float> c(16 * 8);
    auto const a_at = [](int i, int k) { return random_number(5, 16 * i + k); };
    auto const b_at = [](int k, int j) { return random_number(6, 8 * k + j); };
    run<32, 1024>([=, c = c.data()](Emulated& d) {
      auto s = d.shared<bfloat16>(0);    // a: 16 rows i of 16 k, or 16 rows k of 16 i
      auto t = d.shared<bfloat16>(512);  // b: 16 rows k of 8 j, or 8 rows j of 16 k
      for (int i = d.lane(); i < 256; i += 32) {
        s[i] = a_transposed ? a_at(i % 16, i / 16) : a_at(i / 16, i % 16);
        if (i < 128) t[i] = b_transposed ? b_at(i % 16, i / 16) : b_at(i / 8, i % 8);
      }
      d.sync();
      int const matrix = d.lane() / 8, row = d.lane() % 8;
      // a's registers: the quarters (i, k) = (0, 0), (8, 0), (0, 8), (8, 8)
      int const i0 = matrix % 2 * 8, k0 = matrix / 2 * 8;
      auto const a =
          a_transposed ? d.ldmatrix_x4_trans(s + (k0 + row) * 16 + i0) : d.ldmatrix_x4(s + (i0 + row) * 16 + k0);
      // b's: k = 0, 8; the other two are not used
      int const l0 = matrix % 2 * 8;
      auto const b = b_transposed ? d.ldmatrix_x4(t + row * 16 + l0) : d.ldmatrix_x4_trans(t + (l0 + row) * 8);
      float sum[4] = {0, 0, 0, 0};
      d.mma_m16n8k16(sum, a, {{b.word[0], b.word[1]}});
      for (int i = 0; i < 4; ++i) {
        d.store(c + (d.lane() / 4 + (i < 2 ? 0 : 8)) * 8 + d.lane() % 4 * 2 + i % 2, sum[i]);
      }
    });
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        float sum = 0;
        for (int k = 0; k < 16; ++k) sum += static_cast<float>(a_at(i, k)) * static_cast<float>(b_at(k, j));
        CHECK(c[static_cast<std::size_t>(8 * i + j)] == sum);
      }
    }
  }
}
