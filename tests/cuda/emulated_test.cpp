// SPDX-License-Identifier: MIT
// The emulated device: what its functions do, and that it finds what it says it finds. Faults are planted in kernels
// whose twin without the fault must pass.

#include "headmix/backend/cuda/emulated.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/core/random.hpp"

using namespace headmix;

namespace {

/// What the threads of a kernel of these tests do.
using body = std::function<void(Emulated&)>;

template <int threads_, int shared_, bool cooperative_>
struct probe {
  static constexpr char const* name = "probe";
  static constexpr int threads = threads_;
  static constexpr bool cooperative = cooperative_;
  static constexpr int shared_bytes = shared_;
  body const* f;
  void operator()(Emulated& device) const { (*f)(device); }
};

template <int threads = 32, int shared_bytes = 1024>
void run(body const& f, Index blocks = 1) {
  Emulated::queue().launch(probe<threads, shared_bytes, true>{&f}, blocks);
}
template <int threads = 32>
void run_alone(body const& f, Index blocks = 1) {  // threads that do not meet
  Emulated::queue().launch(probe<threads, 0, false>{&f}, blocks);
}

/// The message of the error that f ends with, empty if it does not.
std::string error_of(std::function<void()> const& f) {
  try {
    f();
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}
void check_has(std::string const& text, std::string const& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, "'", text, "' lacks '", part, "'");
}

/// Runs what takes (device, planted): without the fault nothing is found, with it an error that says all parts.
template <int threads = 32, int shared_bytes = 1024>
void check_found(std::function<void(Emulated&, bool)> const& f, std::vector<std::string> const& parts,
                 Index blocks = 1) {
  auto const with = [&](bool planted) {
    return error_of([&] { run<threads, shared_bytes>([&](Emulated& d) { f(d, planted); }, blocks); });
  };
  CHECK(with(false) == "");
  std::string const found = with(true);
  check_has(found, "headmix: kernel probe, block ");
  for (auto const& part : parts) check_has(found, part);
  CHECK(with(false) == "");  // nothing is left behind
}

template <class T>
struct array_of {
  explicit array_of(std::size_t n) : memory(n * sizeof(T)) {}
  T* data() const { return memory.as<T>(); }
  T& operator[](std::size_t i) const { return data()[i]; }

  Emulated::memory memory;
};

bfloat16 random_number(std::uint64_t stream, Index i) {
  return bfloat16(Random(3, stream).uniform(static_cast<std::uint64_t>(i)) - 0.5f);
}

struct big_probe : probe<32, 0, false> {
  char bytes[32768];
};

std::uint32_t bits(bfloat16 low, bfloat16 high) { return low.bits | std::uint32_t{high.bits} << 16; }

}  // namespace

// ---- what the functions do ----

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
  array_of<T> y(3 * n);
  auto const value = [](int i) { return static_cast<T>(static_cast<float>(i % 50)); };
  run<64>([=, y = y.data()](Emulated& d) {
    int const t = d.thread();
    d.store(y + t, d.shuffle_xor(value(t), 5));
    d.store(y + n + t, d.shuffle(value(t), (d.lane() + 3) % 32));
    d.store(y + 2 * n + t, d.shuffle_up(value(t), 4));
  });
  for (int t = 0; t < 64; ++t) {
    int const warp = t / 32 * 32, lane = t % 32;
    auto const at = [&](std::size_t part) { return y[part * n + static_cast<std::size_t>(t)]; };
    CHECK(at(0) == value(t ^ 5));
    CHECK(at(1) == value(warp + (lane + 3) % 32));
    CHECK(at(2) == value(lane < 4 ? t : t - 4));
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
    d.copy_async16(s, x, true);
    d.commit_copies();
    d.copy_async16(s + 4, x + 4, true);
    d.copy_async16(s + 8, x + 8, false);
    d.commit_copies();
    d.commit_copies();  // empty groups count
    d.copy_async16(s + 12, nullptr, false);
    d.commit_copies();
    d.wait_copies<3>();
    d.store16(y, d.load16(s));
    d.store(x + 4, 100);  // the second group may be read as late as at its wait
    d.wait_copies<2>();
    d.store16(y + 4, d.load16(s + 4));
    d.store16(y + 8, d.load16(s + 8));
    d.wait_copies<0>();
    d.store16(y + 12, d.load16(s + 12));
    d.wait_copies<0>();
  });
  std::vector<std::int32_t> const expected{1, 2, 3, 4, 100, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(y[i] == expected[i]);
}

TEST_CASE("cuda, emulated: load_matrices gives fragments as the PTX ISA draws them") {
  // Four matrices, 8 x 8, whose rows lie at arbitrary multiples of 16 bytes.
  array_of<std::uint32_t> y(256);
  auto const element = [](int matrix, int row, int col) { return bfloat16(matrix * 64 + row * 8 + col); };
  auto const place = [](int lane) { return (lane * 5 % 32) * 8; };
  run<32, 512>([=, y = y.data()](Emulated& d) {
    auto s = d.shared<bfloat16>(0);
    for (int col = 0; col < 8; ++col) s[place(d.lane()) + col] = element(d.lane() / 8, d.lane() % 8, col);
    d.sync_warp();
    auto const plain = d.load_matrices(s + place(d.lane()));
    auto const transposed = d.load_matrices_transposed(s + place(d.lane()));
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

TEST_CASE("cuda, emulated: multiply_add takes fragments as the PTX ISA draws them") {
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
  run([r = &registers[0]](Emulated& d) { d.multiply_add(r[d.lane()].c, r[d.lane()].a, r[d.lane()].b); });
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
      auto const a = a_transposed ? d.load_matrices_transposed(s + (k0 + row) * 16 + i0)
                                  : d.load_matrices(s + (i0 + row) * 16 + k0);
      // b's: k = 0, 8; the other two are not used
      int const l0 = matrix % 2 * 8;
      auto const b = b_transposed ? d.load_matrices(t + row * 16 + l0) : d.load_matrices_transposed(t + (l0 + row) * 8);
      float sum[4] = {0, 0, 0, 0};
      d.multiply_add(sum, a, {{b.word[0], b.word[1]}});
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

// ---- the shadow against its definition ----

namespace {

using namespace cuda::emulator;

/// Remembers every access of a launch to 8 bytes, and compares with all of them.
struct all_accesses {
  struct one {
    int byte, who, warp;
    bool write;
    int block, barrier, meeting;  // how many of them there were before; meetings of the warp
  };

  static bool ordered(one const& a, one const& b) {
    if (a.block != b.block) return false;
    if (a.barrier != b.barrier || (a.who == b.who && a.who < lanes_of_warp)) return true;
    return a.warp == b.warp && a.meeting != b.meeting;
  }
  finding::what enter(one const& next, bool global) {
    bool written = false, after_write = false, after_read = false;
    for (one const& before : past) {
      if (before.byte != next.byte || (!global && before.block != next.block)) continue;
      written = written || before.write;
      if (ordered(before, next)) continue;
      after_write = after_write || before.write;
      after_read = after_read || (!before.write && next.write);
    }
    past.push_back(next);
    if (!global && !next.write && !written) return finding::uninitialised;
    return after_write ? finding::after_write : after_read ? finding::after_read : finding::nothing;
  }

  std::vector<one> past;
};

/// Random accesses by four threads of two warps; returns how many were right.
template <bool global, class Shadow>
int count_right(Shadow& shadow, std::uint64_t seed) {
  epochs times;
  int right = 0, block = 0, barrier = 0, meeting[2] = {0, 0};
  all_accesses all;
  times.begin_launch();
  times.begin_block();
  for (std::uint64_t step = 0; step < 4000; ++step) {
    auto const random = Random(seed).block(step);
    switch (random.word[0] % 32) {
      case 0:
        times.begin_launch();
        all.past.clear();
        [[fallthrough]];
      case 1:
        times.begin_block(), ++block;
        break;
      case 2:
      case 3:
        times.pass_barrier(), ++barrier;
        break;
      case 4:
      case 5:
      case 6:
      case 7: {
        int const w = static_cast<int>(random.word[1] % 2);
        times.pass_warp_barrier(w), ++meeting[w];
        break;
      }
      default: {
        int const warp = static_cast<int>(random.word[1] % 2);
        bool const write = random.word[2] % 4 == 0;
        int const thread = 32 * warp + static_cast<int>(random.word[1] / 2 % 2);
        int const who = !write && random.word[1] / 4 % 8 == 0 ? lanes_of_warp + warp : thread;
        int const count = 1 << random.word[3] % 4;
        int const first = static_cast<int>(random.word[3] / 4) % 8 / count * count;
        auto const found =
            access_check<global>(times, who, warp).access(shadow, static_cast<std::size_t>(first), count, write);
        finding expected;
        for (int i = 0; i < count && expected.problem == finding::nothing; ++i) {
          expected = {all.enter({first + i, who, warp, write, block, barrier, meeting[warp]}, global), i, {}};
        }
        right +=
            found.problem == expected.problem && (found.problem == finding::nothing || found.byte == expected.byte);
        if (found.problem != finding::nothing || expected.problem != finding::nothing) {
          times.begin_launch(), times.begin_block(), ++block;  // as an error ends a launch
          all.past.clear();
        }
        continue;
      }
    }
    ++right;
  }
  return right;
}

}  // namespace

TEST_CASE("cuda, emulated: what the shadow finds is what the definition of a race says") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    shared_shadow shared;
    shared.reserve(16);
    CHECK(count_right<false>(shared, seed) == 4000);
    global_shadow global;
    CHECK(count_right<true>(global.page_of(4096), seed) == 4000);
  }
}

// ---- planted faults: shared memory ----

TEST_CASE("cuda, emulated: accesses outside shared memory are found") {
  check_found<32, 256>([](Emulated& d, bool planted) { d.shared<float>(0)[d.thread() + (planted ? 33 : 32)] = 1.f; },
                       {"block 0: thread 31 writes 4 bytes at byte 256 of shared memory, which has 256"});
  check_found<32, 256>(
      [](Emulated& d, bool planted) {
        if (d.thread() == 3) *(d.shared<float>(4) - (planted ? 2 : 1)) = 1.f;
      },
      {"thread 3 writes 4 bytes at byte -4 of shared memory"});
  check_found<32, 250>(
      [](Emulated& d, bool planted) {
        if (d.thread() == 3) d.store16(d.shared<float>(planted ? 240 : 224), {});
      },
      {"thread 3 writes 16 bytes at byte 240 of shared memory, which has 250"});
  check_found<32, 256>(
      [](Emulated& d, bool planted) {
        if (d.thread() == 3) d.copy_async16(d.shared<float>(planted ? 256 : 240), nullptr, false);
      },
      {"thread 3 writes 16 bytes at byte 256 of shared memory"});
}

TEST_CASE("cuda, emulated: accesses of shared memory that fit no address are found") {
  check_found([](Emulated& d, bool planted) { d.store16(d.shared<float>(16 * d.thread() + (planted ? 8 : 0)), {}); },
              {"thread 0 writes 16 bytes at byte 8 of shared memory, not a multiple of 16"});
  check_found([](Emulated& d, bool planted) { d.shared<float>(planted ? 2 : 0)[d.thread()] = 1.f; },
              {"thread 0 writes 4 bytes at byte 2 of shared memory, not a multiple of 4"});
  check_found(
      [](Emulated& d, bool planted) {
        d.store16(d.shared<float>(16 * d.thread()), {});
        d.sync();
        (void)d.load_matrices(d.shared<bfloat16>(planted && d.lane() == 7 ? 34 : 32));
      },
      {"thread 7 reads 16 bytes at byte 34 of shared memory, not a multiple of 16"});
}

TEST_CASE("cuda, emulated: reads of shared memory that nobody has written are found") {
  check_found(
      [](Emulated& d, bool planted) {
        auto s = d.shared<float>(128);
        if (!planted || d.thread() != 5) s[d.thread()] = 1.f;
        float const x = s[d.thread()];
        (void)x;
      },
      {"thread 5 reads byte 148 of shared memory, which nobody has written"});
  // What another block or an earlier launch left there does not count.
  check_found(
      [](Emulated& d, bool planted) {
        auto s = d.shared<float>(0);
        if (!planted || d.block() == 0) s[d.thread()] = 1.f;
        float const x = s[d.thread()];
        (void)x;
      },
      {"block 1: thread 0 reads byte 0 of shared memory, which nobody has written"}, 2);
  check_found(
      [](Emulated& d, bool planted) {
        if (!planted || d.thread() != 9) d.store16(d.shared<float>(16 * d.thread()), {});
        d.sync();
        (void)d.load_matrices(d.shared<bfloat16>(16 * d.lane()));
      },
      {"thread 9 reads byte 144 of shared memory, which nobody has written"});
}

TEST_CASE("cuda, emulated: races in shared memory are found") {
  SUBCASE("write after write") {
    check_found<64>(
        [](Emulated& d, bool planted) { d.shared<std::int16_t>(0)[planted ? d.thread() / 2 : d.thread()] = 1; },
        {"thread 1 races: it writes byte 0 of shared memory, which thread 0 has written, with no barrier between"});
  }
  SUBCASE("read after write, which another warp did") {
    check_found<64>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          if (d.warp() == 0) s[d.thread()] = 1.f;
          d.sync_warp();  // is not enough
          if (!planted) d.sync();
          float const x = s[d.lane()];
          (void)x;
        },
        {"block 0: thread 63 races: it reads byte 124 of shared memory, which thread 31 has written, with no barrier "
         "between"});
  }
  SUBCASE("write after read") {
    check_found<64>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          s[d.thread()] = 1.f;
          d.sync();
          float const x = d.thread() == 63 ? static_cast<float>(s[3]) : 0;  // the last to come is the first to go on
          if (!planted) d.sync();
          if (d.thread() == 3) s[3] = x;
        },
        {"thread 3 races: it writes byte 12 of shared memory, which thread 63 has read, with no barrier between"});
  }
  SUBCASE("write after several have read") {
    check_found<96>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          if (d.thread() == 7) s[3] = 1.f;
          d.sync();
          float const x = s[3];
          if (!planted) d.sync();
          if (d.thread() == 50) s[3] = x;
        },
        {"thread 50 races: it writes byte 12 of shared memory, which threads of several warps have read"});
    check_found<32>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          if (d.thread() == 7) s[3] = 1.f;
          d.sync_warp();
          float const x = s[3];
          if (!planted) d.sync_warp();
          if (d.thread() == 30) s[3] = x;
        },
        {"thread 30 races: it writes byte 12 of shared memory, which several lanes of warp 0 have read"});
  }
  SUBCASE("in a warp, whose barrier orders its lanes") {
    check_found<64>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(128 * d.warp());
          s[d.lane()] = 1.f;
          d.sync_warp();
          float const x = s[d.lane() ^ 1];
          if (!planted || d.warp() == 0) d.sync_warp();
          s[d.lane()] = x;
        },
        {"thread 33 races: it reads byte 128 of shared memory, which thread 32 has written, with no barrier between"});
  }
  SUBCASE("shuffles and ballots order no memory") {
    check_found<32>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          s[d.lane()] = 1.f;
          if (planted) {
            (void)d.ballot(true);
            (void)d.shuffle_xor(1.f, 1);
          } else {
            d.sync_warp();
          }
          float const x = s[d.lane() ^ 1];
          (void)x;
        },
        {"thread 30 races: it reads byte 124 of shared memory, which thread 31 has written"});
  }
  SUBCASE("a matrix goes to the whole warp, whoever names its rows") {
    check_found<32>(
        [](Emulated& d, bool planted) {
          d.store16(d.shared<bfloat16>(16 * d.lane()), {});
          if (!planted) d.sync_warp();
          (void)d.load_matrices(d.shared<bfloat16>(16 * d.lane()));
        },
        {"races: it reads byte 0 of shared memory, which thread 0 has written"});
    check_found<32>(
        [](Emulated& d, bool planted) {
          d.store16(d.shared<bfloat16>(16 * d.lane()), {});
          d.sync_warp();
          (void)d.load_matrices(d.shared<bfloat16>(16 * d.lane()));
          if (!planted) d.sync_warp();
          d.store16(d.shared<bfloat16>(16 * d.lane()), {});
        },
        {"races: it writes byte 480 of shared memory, which several lanes of warp 0 have read"});
  }
  SUBCASE("neighbours in a word do not race") {
    run<32>([](Emulated& d) {
      auto s = d.shared<std::uint8_t>(0);
      s[d.thread()] = 1;
      std::uint8_t const x = s[d.thread()];
      (void)x;
    });
  }
}

TEST_CASE("cuda, emulated: wrong use of asynchronous copies is found") {
  array_of<float> x(256);
  auto const* const source = x.data();
  SUBCASE("read before the wait") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(16 * d.thread());
          d.copy_async16(s, source + 4 * d.thread(), true);
          d.commit_copies();
          if (planted && d.thread() == 2) d.wait_copies<1>();
          if (!planted || d.thread() != 2) d.wait_copies<0>();
          float const v = s[1];
          (void)v;
        },
        {"thread 2 reads byte 32 of shared memory while a copy of thread 2 to it is on its way"});
  }
  SUBCASE("no commit, so that the wait is for nothing") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(16 * d.thread());
          d.copy_async16(s, source, true);
          if (!planted) d.commit_copies();
          d.wait_copies<0>();
          float const v = s[1];
          (void)v;
        },
        {"thread 0 reads byte 0 of shared memory while a copy of thread 0 to it is on its way"});
  }
  SUBCASE("write before the wait") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(16 * d.thread());
          d.copy_async16(s, source, true);
          d.commit_copies();
          if (planted) s[0] = 1.f;
          d.wait_copies<0>();
          s[0] = 1.f;
        },
        {"thread 0 writes byte 0 of shared memory while a copy of thread 0 to it is on its way"});
  }
  SUBCASE("read by others without a barrier behind the wait") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          d.copy_async16(s + 4 * d.thread(), source, true);
          d.commit_copies();
          if (planted) d.sync();
          d.wait_copies<0>();
          if (!planted) d.sync();
          if (d.thread() == 30) {
            float const v = s[0];
            (void)v;
          }
        },
        {"thread 30 races: it reads byte 0 of shared memory, which thread 0 has written, with no barrier between"});
  }
  SUBCASE("copied over what others still read") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          d.store16(s + 4 * d.thread(), {});
          d.sync();
          float const v = d.thread() == 31 ? static_cast<float>(s[0]) : 0;
          (void)v;
          if (!planted) d.sync();
          d.copy_async16(s + 4 * d.thread(), source, true);
        },
        {"thread 0 races: it writes byte 0 of shared memory, which thread 31 has read, with no barrier between"});
  }
  SUBCASE("an unfit source") {
    check_found(
        [=](Emulated& d, bool planted) {
          d.copy_async16(d.shared<float>(16 * d.thread()), source + (planted ? 1 : 0), d.thread() != 0);
        },
        {"thread 0 copies 16 bytes from 0x", "not a multiple of 16"});
  }
  SUBCASE("a source outside of memory") {
    check_found(
        [=](Emulated& d, bool planted) {
          d.copy_async16(d.shared<float>(16 * d.thread()), source + 256, planted && d.thread() == 6);
        },
        {"thread 6 reads 16 bytes at byte 1024 of memory (0x", "which has 1024"});
  }
  SUBCASE("a source that is written meanwhile") {
    check_found(
        [=, y = x.data()](Emulated& d, bool planted) {
          d.copy_async16(d.shared<float>(16 * d.thread()), source + 4 * d.thread(), true);
          d.commit_copies();
          d.sync();
          if (planted && d.thread() == 0) d.store(y + 17, 1.f);
          d.wait_copies<0>();
        },
        {"thread 4 races: it reads byte 68 of the memory at 0x",
         "which thread 0 has written, with no barrier between"});
  }
}

// ---- planted faults: global memory ----

TEST_CASE("cuda, emulated: races in global memory are found") {
  array_of<float> x(256);
  auto* const y = x.data();
  SUBCASE("within a block") {
    check_found<64>(
        [=](Emulated& d, bool planted) {
          d.store(y + d.thread(), 1.f);
          if (!planted) d.sync();
          float const v = d.load(y + (d.thread() + 32) % 64);
          if (!planted) d.sync();
          d.store(y + d.thread(), v);
        },
        {"thread 32 races: it writes byte 128 of the memory at 0x",
         "of 1024 bytes, which thread 0 has read, with no barrier between"});
  }
  SUBCASE("between blocks, whatever their barriers") {
    check_found<32>(
        [=](Emulated& d, bool planted) {
          d.sync();
          if (d.thread() == 7) d.store(y + (planted ? 3 : d.block()), 1.f);
          d.sync();
        },
        {"block 1: thread 7 races: it writes byte 12 of the memory",
         "which thread 7 of block 0 has written in this launch"},
        3);
    check_found<32>(
        [=](Emulated& d, bool planted) {
          if (planted && d.block() == 2) d.store(y + d.thread(), 1.f);
          if (d.block() == 1) (void)d.load(y + d.thread());
        },
        {"block 2: thread 0 races: it writes byte 0 of the memory",
         "which thread 0 of block 1 has read in this launch"},
        3);
  }
  SUBCASE("a block that reads what several have read") {
    check_found<32>(
        [=](Emulated& d, bool planted) {
          (void)d.load(y + 1);
          d.sync();
          if (planted && d.block() == 1 && d.thread() == 5) d.store(y + 1, 1.f);
        },
        {"block 1: thread 5 races: it writes byte 4 of the memory", "which several blocks have read in this launch"},
        2);
  }
  SUBCASE("of 16 bytes with a part of them") {
    check_found<32>(
        [=](Emulated& d, bool planted) {
          if (d.thread() == 1) d.store16(y, {});
          if (d.thread() == 2) d.store(y + (planted ? 3 : 4), 1.f);
        },
        {"thread 2 races: it writes byte 12 of the memory at 0x"});
  }
  SUBCASE("of threads that do not meet") {
    CHECK(error_of([&] { run_alone<64>([=](Emulated& d) { d.store(y + d.block() * 64 + d.thread(), 1.f); }, 2); }) ==
          "");
    check_has(error_of([&] { run_alone<64>([=](Emulated& d) { d.store(y + d.thread() / 2, 1.f); }); }),
              "kernel probe, block 0: thread 1 races: it writes byte 0 of the memory");
    check_has(error_of([&] { run_alone<64>([=](Emulated& d) { d.store(y + d.thread(), 1.f); }, 2); }),
              "kernel probe, block 1: thread 0 races: it writes byte 0 of the memory");
  }
  SUBCASE("not of launches") {
    for (int i = 0; i < 2; ++i) run_alone<32>([=](Emulated& d) { d.store(y + d.thread(), d.load(y + d.thread())); });
  }
  SUBCASE("over the border of a shadow page") {
    array_of<float> big(4096);
    run_alone<32>([z = big.data()](Emulated& d) {
      for (int i = d.thread(); i < 1024; i += 32) d.store16(z + 4 * i, {});
    });
  }
}

TEST_CASE("cuda, emulated: accesses outside of memory are found") {
  array_of<float> x(61);
  auto* const y = x.data();
  check_found([=](Emulated& d, bool planted) { (void)d.load(y + d.thread() + (planted ? 30 : 29)); },
              {"thread 31 reads 4 bytes at byte 244 of memory (0x", "), which has 244"});
  check_found([=](Emulated& d, bool planted) { d.store(y + d.thread() - (planted ? 1 : 0), 1.f); },
              {"thread 0 writes 4 bytes at 0x", ", 4 bytes before the memory at 0x"});
  check_found(
      [=](Emulated& d, bool planted) {
        if (d.thread() == 3) (void)d.load16(y + (planted ? 60 : 56));
      },
      {"thread 3 reads 16 bytes at byte 240 of memory (0x", "), which has 244"});
  check_found(
      [=](Emulated& d, bool planted) {
        if (d.thread() == 3) d.store16(y + (planted ? 60 : 56), {});
      },
      {"thread 3 writes 16 bytes at byte 240 of memory (0x", "), which has 244"});
}

TEST_CASE("cuda, emulated: strict_memory finds memory of the host") {
  float host = 1;
  array_of<float> x(1);
  auto const error = [](float* p) {
    return error_of([=] {
      run_alone([=](Emulated& d) {
        if (d.thread() == 0) d.store(p, d.load(p));
      });
    });
  };
  CHECK(error(&host) == "");
  {
    Emulated::strict_memory const strict;
    CHECK(error(x.data()) == "");
    check_has(error(&host), "kernel probe, block 0: thread 0 reads 4 bytes at 0x");
    check_has(error(&host), ", in no memory of the device");
    check_has(error(nullptr), "reads 4 bytes at 0x0, in no memory");
    Emulated::queue const queue;
    CHECK(error(reinterpret_cast<float*>(queue.workspace().data())) == "");
  }
  CHECK(error(&host) == "");
}

TEST_CASE("cuda, emulated: unfit addresses of global memory are found") {
  array_of<float> x(64);
  auto* const y = x.data();
  check_found([=](Emulated& d, bool planted) { (void)d.load16(y + (planted && d.thread() == 4 ? 2 : 4)); },
              {"thread 4 reads 16 bytes at 0x", "8, not a multiple of 16"});
  check_found(
      [=](Emulated& d, bool planted) {
        if (d.thread() == 4) d.store16(y + (planted ? 1 : 0), {});
      },
      {"thread 4 writes 16 bytes at 0x", "4, not a multiple of 16"});
  check_found(
      [=](Emulated& d, bool planted) {
        (void)d.load(reinterpret_cast<float const*>(reinterpret_cast<std::uintptr_t>(y) + (planted ? 2u : 0u)));
      },
      {"thread 0 reads 4 bytes at 0x", "2, not a multiple of 4"});
}

// ---- planted faults: meetings ----

TEST_CASE("cuda, emulated: deadlocks are found") {
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (planted && d.thread() == 5) return;
        d.sync();
      },
      {"block 0: deadlock: thread 0 and 62 others wait at sync, thread 5 has ended"});
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (!planted || d.thread() < 32) d.sync();
      },
      {"deadlock: thread 0 and 31 others wait at sync, thread 32 and 31 others have ended"});
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (planted && d.thread() == 40) {
          d.sync();
        } else {
          d.sync_warp();
          d.sync();
        }
        if (!planted || d.thread() == 40) d.sync_warp();
      },
      {"deadlock: thread 0 and 32 others wait at sync, thread 32 and 30 others wait at sync_warp"}, 1);
  check_found<32>(
      [](Emulated& d, bool planted) {
        if (!planted || d.lane() < 16) (void)d.shuffle_xor(1.f, 1);
      },
      {"deadlock: thread 0 and 15 others wait at shuffle_xor, thread 16 and 15 others have ended"});
  check_found<32>(
      [](Emulated& d, bool planted) {
        float c[4] = {};
        if (!planted || d.lane() != 3) d.multiply_add(c, {}, {});
      },
      {"deadlock: thread 0 and 30 others wait at multiply_add, thread 3 has ended"});
}

TEST_CASE("cuda, emulated: lanes that do different things together are found") {
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (planted && d.thread() == 40) {
          (void)d.ballot(true);
        } else {
          (void)d.shuffle_xor(1.f, 1);
        }
        if (!planted || d.thread() == 40) {
          if (planted) {
            (void)d.shuffle_xor(1.f, 1);
          } else {
            (void)d.ballot(true);
          }
        }
      },
      {"thread 40 calls ballot while thread 32 of its warp waits at shuffle_xor of 4 bytes"});
  check_found<32>(
      [](Emulated& d, bool planted) {
        if (planted && d.lane() == 1) {
          (void)d.shuffle(1.0, 1);
        } else {
          (void)d.shuffle(1.f, 1);
        }
      },
      {"thread 1 calls shuffle of 8 bytes while thread 0 of its warp waits at shuffle of 4 bytes"});
  check_found<32>(
      [](Emulated& d, bool planted) {
        d.store16(d.shared<float>(16 * d.lane()), {});
        d.sync_warp();
        auto const row = d.shared<bfloat16>(16 * d.lane());
        (void)(planted && d.lane() > 4 ? d.load_matrices_transposed(row) : d.load_matrices(row));
      },
      {"thread 0 calls load_matrices while thread 31 of its warp waits at load_matrices_transposed"});
}

TEST_CASE("cuda, emulated: threads that may not meet cannot") {
  auto const error = [](body const& f) { return error_of([&] { run_alone(f); }); };
  check_has(error([](Emulated& d) { d.sync(); }), "thread 0 calls sync in a kernel that is not cooperative");
  check_has(error([](Emulated& d) { (void)d.ballot(true); }), "calls ballot in a kernel that is not");
  check_has(error([](Emulated& d) { (void)d.shared<float>(0); }), "calls shared in a kernel that is not");
  check_has(error([](Emulated& d) { d.commit_copies(); }), "calls commit_copies in a kernel that is not");
}

TEST_CASE("cuda, emulated: blocks that no device can run are refused") {
  auto const nothing = [](Emulated&) {};
  run<1024, 227 * 1024>(nothing);
  check_has(error_of([&] { run<48>(nothing); }),
            "kernel probe: expected a multiple of 32 up to 1024 threads of a block, found 48");
  check_has(error_of([&] { run<1056>(nothing); }), "found 1056");
  check_has(error_of([&] { run<0>(nothing); }), "found 0");
  check_has(error_of([&] { run<32, 227 * 1024 + 1>(nothing); }),
            "expected at most 232448 bytes of shared memory, found 232449");
  check_has(error_of([&] { run(nothing, -1); }), "expected 0 to 2147483647 blocks, found -1");
  big_probe const big{};
  check_has(error_of([&] { Emulated::queue().launch(big, 1); }),
            "expected at most 32764 bytes of operands, found 32776");
}

TEST_CASE("cuda, emulated: an error of the kernel itself leaves a usable queue") {
  Emulated::queue const queue;
  array_of<float> x(256);
  auto const run_with = [&, x = x.data()](bool planted) {
    body const f = [=](Emulated& d) {
      auto s = d.shared<float>(16 * d.thread());
      d.copy_async16(s, x, true);
      d.commit_copies();
      d.sync();
      if (planted && d.thread() == 3) throw std::out_of_range("three");
      (void)d.ballot(true);
      d.wait_copies<0>();
      if (d.block() == 1) d.store(x + 8 + d.thread(), s[0] + 1.f);
    };
    queue.launch(probe<64, 1024, true>{&f}, 2);
  };
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(run_with(true), std::out_of_range);
    x[71] = 0;
    run_with(false);
    CHECK(x[71] == 1);
  }
}

TEST_CASE("cuda, emulated: threads of the host launch at the same time") {
  std::vector<std::thread> threads;
  std::vector<int> sums(3, 0);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&sum = sums[i]] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        Emulated::memory const memory(128);
        run([y = memory.as<int>()](Emulated& d) {
          d.store(y + d.thread(), d.thread());
          d.sync();
          int const other = d.load(y + (d.thread() ^ 1));
          d.sync();
          d.store(y + d.thread(), other);
        });
        for (int t = 0; t < 32; ++t) sum += memory.as<int>()[t] == (t ^ 1) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int sum : sums) CHECK(sum == 640);
}
