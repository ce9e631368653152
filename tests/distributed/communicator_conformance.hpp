#pragma once
// SPDX-License-Identifier: MIT
// Requirements of every Communicator. No test framework is used, since checks run in several threads and processes: a
// failure is an Error with its place.
//
//   run_ranks(4, [](Local& ranks) { test::check_communicator(ranks); });

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../error_of.hpp"
#include "headmix/contract/communicator.hpp"
#include "headmix/core/checked.hpp"

namespace headmix::test {

/// Fails unless `holds`.
inline void require(bool holds, std::string const& what, char const* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (!holds) fail(file, ":", line, ": ", what);
}

template <class T>
bool same_bits(T const* a, T const* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;
}

/// Element i of a rank, with bits that any wrong sum would lose; every rank can compute all elements.
template <class T>
T element_of(Index rank, Index i, Index salt) {
  auto word = static_cast<std::uint64_t>(i * 1009 + rank * 7919 + salt * 104729 + 1) * 0x9E3779B97F4A7C15u;
  word ^= word >> 29;
  word *= 0xBF58476D1CE4E5B9u;
  word ^= word >> 32;
  if constexpr (std::is_same_v<T, std::byte>) {
    return static_cast<T>(word & 0xFFu);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(word & 0xFFFFFu) - 0x80000);
  } else {
    auto const unit = static_cast<double>(word >> 11) / 9007199254740992.0;  // below 1
    return T(std::ldexp(unit - 0.5, static_cast<int>(word & 15u)));
  }
}
template <class T>
std::vector<T> elements_of(Index rank, Index n, Index salt) {
  std::vector<T> all(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = element_of<T>(rank, i, salt);
  return all;
}
/// The sum in the order of the ranks, rounded once.
template <class T>
T sum_of(Index ranks, Index i, Index salt) {
  using wide = std::conditional_t<std::is_integral_v<T>, T, accumulator_t<T>>;
  auto sum = static_cast<wide>(element_of<T>(0, i, salt));
  for (Index r = 1; r < ranks; ++r) sum += static_cast<wide>(element_of<T>(r, i, salt));
  return static_cast<T>(sum);
}
template <class T>
std::vector<T> sums_of(Index ranks, Index n, Index salt) {
  std::vector<T> all(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = sum_of<T>(ranks, i, salt);
  return all;
}

template <class T, class C>
void check_sums(C& c) {
  Index salt = 0;
  for (Index const n : {0, 1, 2, 3, 5, 511, 512, 513, 1023, 1024, 1025, 2049, 5003, 70001}) {
    auto const expected = sums_of<T>(c.size(), n, ++salt);
    auto const from = elements_of<T>(c.rank(), n, salt);
    std::vector<T> to(from.size());
    c.all_sum(to.data(), from.data(), n);
    require(same_bits(to.data(), expected.data(), to.size()), message("all_sum of ", n));
    require(same_bits(from.data(), elements_of<T>(c.rank(), n, salt).data(), from.size()), "all_sum keeps its operand");
    to = from;
    c.all_sum(to.data(), to.data(), n);
    require(same_bits(to.data(), expected.data(), to.size()), message("all_sum in place of ", n));
    // A part in the middle of the memory.
    auto const mark = element_of<T>(99, 99, 99);
    std::vector<T> longer(from.size() + 7, mark);
    std::copy(from.begin(), from.end(), longer.begin() + 3);
    c.all_sum(longer.data() + 3, longer.data() + 3, n);
    require(same_bits(longer.data() + 3, expected.data(), to.size()), message("all_sum of a part of ", n));
    for (std::size_t i = 0; i < 7; ++i) {
      require(same_bits(&longer[i < 3 ? i : to.size() + i], &mark, 1), "all_sum writes what it was not given");
    }
  }
}

/// Numbers of elements of the ranks: none, one, odd, many.
inline std::vector<std::vector<Index>> counts_for(Index ranks) {
  std::vector<std::vector<Index>> all;
  auto const add = [&](auto const& f) {
    auto& counts = all.emplace_back();
    for (Index r = 0; r < ranks; ++r) counts.push_back(f(r));
  };
  add([](Index) { return Index{0}; });
  add([](Index) { return Index{1}; });
  add([](Index r) { return r % 2 == 0 ? Index{0} : Index{3}; });
  add([](Index r) { return r == 0 ? Index{2051} : Index{0}; });
  add([](Index r) { return 7 * r + 1; });
  add([](Index r) { return 1000 + r; });
  add([](Index r) { return 30011 - r; });
  return all;
}
inline Index sum_of(std::vector<Index> const& counts, Index end) {
  Index sum = 0;
  for (Index r = 0; r < end; ++r) sum += counts[static_cast<std::size_t>(r)];
  return sum;
}

template <class T, class C>
void check_moves(C& c) {
  auto const me = static_cast<std::size_t>(c.rank());
  Index salt = 1000;
  for (auto const& counts : counts_for(c.size())) {
    ++salt;
    Index const n = sum_of(counts, c.size());
    std::vector<T> expected;
    for (Index r = 0; r < c.size(); ++r) {
      auto const part = elements_of<T>(r, counts[static_cast<std::size_t>(r)], salt);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto const from = elements_of<T>(c.rank(), counts[me], salt);
    std::vector<T> to(expected.size());
    c.all_gather(to.data(), from.data(), counts);
    require(same_bits(to.data(), expected.data(), to.size()), message("all_gather of ", n));
    // This rank's part may already be in place.
    std::vector<T> whole(expected.size());
    T* const own = whole.data() + sum_of(counts, c.rank());
    std::copy(from.begin(), from.end(), own);
    c.all_gather(whole.data(), own, counts);
    require(same_bits(whole.data(), expected.data(), whole.size()), message("all_gather in place of ", n));

    for (Index const root : {Index{0}, c.size() - 1, c.size() / 2}) {
      Index const many = n + root;
      auto data = elements_of<T>(c.rank(), many, ++salt);
      c.broadcast(data.data(), many, root);
      require(same_bits(data.data(), elements_of<T>(root, many, salt).data(), data.size()),
              message("broadcast of ", many, " from ", root));
    }

    // Rank r sends counts[(r + 2 s) % size] elements to rank s; the elements encode sender and receiver.
    auto const sent_by = [&](Index r, Index s) { return counts[static_cast<std::size_t>((r + 2 * s) % c.size())]; };
    std::vector<Index> sent, received;
    std::vector<T> out, in;
    for (Index r = 0; r < c.size(); ++r) {
      sent.push_back(sent_by(c.rank(), r));
      received.push_back(sent_by(r, c.rank()));
      auto const part_out = elements_of<T>(c.rank() * 64 + r, sent.back(), salt);
      auto const part_in = elements_of<T>(r * 64 + c.rank(), received.back(), salt);
      out.insert(out.end(), part_out.begin(), part_out.end());
      in.insert(in.end(), part_in.begin(), part_in.end());
    }
    std::vector<T> got(in.size());
    c.all_to_all(got.data(), received, out.data(), sent);
    require(same_bits(got.data(), in.data(), in.size()), message("all_to_all of ", n));
  }
}

template <class T, class C>
void check_reduce_scatter(C& c) {
  Index salt = 2000;
  for (auto const& counts : counts_for(c.size())) {
    ++salt;
    Index const n = sum_of(counts, c.size()), first = sum_of(counts, c.rank());
    auto const mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(c.rank())]);
    auto const all = sums_of<T>(c.size(), n, salt);
    auto from = elements_of<T>(c.rank(), n, salt);
    std::vector<T> to(mine);
    c.reduce_scatter(to.data(), from.data(), counts);
    require(same_bits(to.data(), all.data() + first, mine), message("reduce_scatter of ", n));
    // The result overwrites this rank's part.
    c.reduce_scatter(from.data() + first, from.data(), counts);
    require(same_bits(from.data() + first, all.data() + first, mine), message("reduce_scatter in place of ", n));
  }
}

template <class C>
void check_bfloat16(C& c) {
  if (c.size() < 3) return;
  // In bfloat16, 256 + 1 is 256, and adding 1 again is 256; the sum of all is 258.
  bfloat16 x(c.rank() == 0 ? 256.f : c.rank() < 3 ? 1.f : 0.f), y = x;
  c.all_sum(&x, &x, 1);
  require(static_cast<float>(x) == 258, "sums of bfloat16 are rounded once");
  std::vector<bfloat16> many(9001, y);
  c.all_sum(many.data(), many.data(), static_cast<Index>(many.size()));
  for (auto const m : many) require(static_cast<float>(m) == 258, "many sums of bfloat16 are rounded once");
}

/// Several concurrent sums, completed in another order than begun, with other operations in between.
template <class C>
void check_overlap(C& c) {
  if constexpr (Overlaps<C>) {
    for (Index turn = 0; turn < 6; ++turn) {
      Index const sizes[] = {3, 4099, 0, 20011, 1024, 1025, 100003};
      constexpr std::size_t all = std::size(sizes);
      std::vector<std::vector<float>> x, y(all);
      std::vector<Index> numbers;
      for (std::size_t k = 0; k < all; ++k) {
        x.push_back(elements_of<float>(c.rank(), sizes[k], 3000 + turn));
        y[k].resize(x[k].size());
        numbers.push_back(c.begin_all_sum(k % 2 == 0 ? x[k].data() : y[k].data(), x[k].data(), sizes[k]));
        if (turn % 2 == 0) c.advance();
      }
      if (turn % 3 == 0) {
        double together = 1;
        c.all_sum(&together, &together, 1);
        require(together == static_cast<double>(c.size()), "a sum among others that go on");
        c.barrier();
      }
      for (std::size_t i = 0; i < all; ++i) {
        // A different order on every rank.
        std::size_t const k = turn < 3 ? (i * 3 + static_cast<std::size_t>(c.rank())) % all : all - 1 - i;
        c.complete(numbers[k]);
        auto const expected = sums_of<float>(c.size(), sizes[k], 3000 + turn);
        auto const& found = k % 2 == 0 ? x[k] : y[k];
        require(same_bits(found.data(), expected.data(), found.size()), message("of several sums, that of ", sizes[k]));
        c.advance();
      }
    }
  }
}

/// Exchanges concurrent with sums.
template <class C>
void check_overlapping_exchanges(C& c) {
  if constexpr (Overlaps<C>) {
    for (Index turn = 0; turn < 4; ++turn) {
      Index const each = turn == 3 ? 0 : 1 + 700 * turn;
      std::vector<Index> const counts(static_cast<std::size_t>(c.size()), each);
      auto const x = elements_of<Index>(c.rank(), each * c.size(), 4000 + turn);
      std::vector<Index> y(x.size()), z(x.size());
      Index const first = c.begin_all_to_all(y.data(), counts, x.data(), counts);
      double sum = 1;
      Index const between = c.begin_all_sum(&sum, &sum, 1);
      Index const second = c.begin_all_to_all(z.data(), counts, x.data(), counts);
      c.complete(turn % 2 == 0 ? second : first);
      c.complete(between);
      c.complete(turn % 2 == 0 ? first : second);
      require(sum == static_cast<double>(c.size()), "a sum among exchanges");
      for (Index r = 0; r < c.size(); ++r) {
        auto const theirs = elements_of<Index>(r, each * c.size(), 4000 + turn);
        auto const at = static_cast<std::ptrdiff_t>(r * each), mine = static_cast<std::ptrdiff_t>(c.rank() * each);
        require(std::equal(y.begin() + at, y.begin() + at + each, theirs.begin() + mine), "an exchange that went on");
        require(std::equal(z.begin() + at, z.begin() + at + each, theirs.begin() + mine), "a second one");
      }
    }
  }
}

/// All operations that must succeed.
template <Communicator C>
void check_communicator(C& c) {
  require(0 <= c.rank() && c.rank() < c.size(), "the number of a rank");
  c.barrier();
  check_sums<float>(c);
  check_sums<double>(c);
  check_sums<bfloat16>(c);
  check_sums<Int>(c);
  check_sums<Index>(c);
  check_moves<float>(c);
  check_moves<double>(c);
  check_moves<bfloat16>(c);
  check_moves<Int>(c);
  check_moves<Index>(c);
  check_moves<std::byte>(c);
  check_reduce_scatter<float>(c);
  check_reduce_scatter<double>(c);
  check_reduce_scatter<bfloat16>(c);
  check_reduce_scatter<Int>(c);
  check_reduce_scatter<Index>(c);
  check_bfloat16(c);
  check_overlap(c);
  check_overlapping_exchanges(c);
  c.barrier();
}

/// Mistakes that only all ranks together can detect; the last rank makes them. For at least two ranks.
inline constexpr int disagreements = 14;
/// Makes one of the mistakes, after which the communicator is unusable, and checks the error of this rank.
template <Communicator C>
void check_disagreement(C& c, int number) {
  Index const last = c.size() - 1;
  bool const wrong = c.rank() == last;
  std::vector<std::string> parts;  // expected parts of the text
  std::string const on_last = message(" on rank ", last);
  auto const differ = [&](std::string const& what, std::string const& right, std::string const& other) {
    parts = {" disagree: " + what + " is ", right + " on rank ", other + on_last};
  };
  std::vector<float> x(40000), y(40000);
  std::vector<Index> counts(static_cast<std::size_t>(c.size()), 3), more = counts;
  more.back() = 5;
  std::vector<std::byte> bytes(64);
  auto const act = [&] {
    switch (number) {
      case 0:
        differ("all_sum: the number of elements", "5", "6");
        c.all_sum(x.data(), x.data(), wrong ? 6 : 5);
        break;
      case 1:
        differ("all_sum: the number of elements", "20000", "30001");
        c.all_sum(x.data(), x.data(), wrong ? 30001 : 20000);
        break;
      case 2:
        differ("all_sum: the number of elements", "5", "30000");
        c.all_sum(x.data(), x.data(), wrong ? 30000 : 5);
        break;
      case 3: {
        differ("all_sum: the type of elements", "float", "double");
        std::vector<double> wide(5);
        if (wrong)
          c.all_sum(wide.data(), wide.data(), 5);
        else
          c.all_sum(x.data(), x.data(), 5);
        break;
      }
      case 4:
        differ("the operation", "all_sum", "barrier");
        if (wrong)
          c.barrier();
        else
          c.all_sum(x.data(), x.data(), 5);
        break;
      case 5:
        differ("the operation", "broadcast", "all_sum");
        if (wrong)
          c.all_sum(x.data(), x.data(), 20000);
        else
          c.broadcast(x.data(), 5, 0);
        break;
      case 6:
        differ("broadcast: the root", "0", std::to_string(last));
        c.broadcast(x.data(), 5, wrong ? last : 0);
        break;
      case 7:
        differ("broadcast: the number of elements", "4", "40000");
        c.broadcast(x.data(), wrong ? 40000 : 4, 0);
        break;
      case 8:
        differ("all_gather: the number of elements", std::to_string(3 * c.size()), std::to_string(3 * c.size() + 2));
        c.all_gather(y.data(), x.data(), wrong ? more : counts);
        break;
      case 9:
        // The same number of elements, divided differently.
        parts = {"all_gather: rank ", " elements to rank ", ", which expects "};
        more = counts, more.front() -= 1, more.back() += 1;
        c.all_gather(y.data(), x.data(), wrong ? more : counts);
        break;
      case 10:
        differ("reduce_scatter: the number of elements", std::to_string(3 * c.size()),
               std::to_string(3 * c.size() + 2));
        c.reduce_scatter(y.data(), x.data(), wrong ? more : counts);
        break;
      case 11:
        parts = {"reduce_scatter: rank ", " elements to rank ", ", which expects "};
        more = counts, more.front() -= 1, more.back() += 1;
        c.reduce_scatter(y.data(), x.data(), wrong ? more : counts);
        break;
      case 12: {
        // Only rank 0 can detect it.
        parts = {message("all_to_all: rank ", last, " sends 4 elements to rank 0, which expects 3")};
        auto sent = counts;
        if (wrong) sent.front() = 4;
        c.all_to_all(y.data(), counts, x.data(), sent);
        break;
      }
      default: {
        differ("all_to_all: the type of elements", "float", "std::byte");
        if (wrong)
          c.all_to_all(bytes.data(), counts, bytes.data() + 32, counts);
        else
          c.all_to_all(y.data(), counts, x.data(), counts);
        break;
      }
    }
    // Ranks that have not detected it fail in the next operation.
    c.barrier();
  };
  std::string const text = error_of(act);
  require(text.starts_with("headmix: "), message("disagreement ", number, " is an error; found '", text, "'"));
  for (auto const& part : parts) {
    require(says(text, part.c_str()), message("disagreement ", number, ": expected '", part, "' in '", text, "'"));
  }
  require(error_of([&] { c.barrier(); }) != "", "after an error every operation is one");
}

/// Mistakes that a rank detects alone: nothing has been sent, so the communicator stays usable.
template <Communicator C>
void check_refusals(C& c) {
  float x[8]{};
  auto const refused = [&](std::string const& part, auto const& f) {
    std::string const text = error_of(f);
    require(says(text, part.c_str()), message("expected '", part, "' in '", text, "'"));
  };
  std::vector<Index> const longer(static_cast<std::size_t>(c.size()) + 1), good(static_cast<std::size_t>(c.size())),
      none;
  auto negative = good, many = good;
  negative.back() = -1, many.back() = max_elements + 1;
  std::string const here = message(" on rank ", c.rank());
  std::string const less = "a number of elements must not be negative; found -1" + here;
  std::string const more = message("expected at most ", max_elements, " elements, found ", max_elements + 1, here);
  for (auto const& counts : {none, longer}) {
    std::string const found = message("there are numbers of elements for ", counts.size(), " ranks", here);
    refused("all_gather: " + found, [&] { c.all_gather(x, x, counts); });
    refused("reduce_scatter: " + found, [&] { c.reduce_scatter(x, x, counts); });
    refused("all_to_all: " + found, [&] { c.all_to_all(x, good, x, counts); });
    refused("all_to_all: " + found, [&] { c.all_to_all(x, counts, x, good); });
  }
  refused("all_sum: " + less, [&] { c.all_sum(x, x, -1); });
  refused("all_sum: " + more, [&] { c.all_sum(x, x, max_elements + 1); });
  refused("broadcast: " + less, [&] { c.broadcast(x, -1, 0); });
  refused("broadcast: " + more, [&] { c.broadcast(x, max_elements + 1, 0); });
  for (auto const& wrong : {std::pair(negative, less), std::pair(many, more)}) {
    auto const& counts = wrong.first;
    auto const& text = wrong.second;
    refused("all_gather: " + text, [&] { c.all_gather(x, x, counts); });
    refused("reduce_scatter: " + text, [&] { c.reduce_scatter(x, x, counts); });
    refused("all_to_all: " + text, [&] { c.all_to_all(x, counts, x, good); });
    refused("all_to_all: " + text, [&] { c.all_to_all(x, good, x, counts); });
  }
  if (c.size() > 1) {  // every rank is a valid root
    std::vector<Index> const all(good.size(), max_elements - 1);
    refused("all_gather: expected at most ", [&] { c.all_gather(x, x, all); });
    refused("reduce_scatter: expected at most ", [&] { c.reduce_scatter(x, x, all); });
  }
  refused("broadcast: there is no rank -1 among ", [&] { c.broadcast(x, 1, -1); });
  refused(message("broadcast: there is no rank ", c.size(), " among "), [&] { c.broadcast(x, 1, c.size()); });
  if constexpr (Overlaps<C>) {
    refused("all_sum: " + less, [&] { c.begin_all_sum(x, x, -1); });
    refused("all_to_all: " + less, [&] { c.begin_all_to_all(x, good, x, negative); });
    auto const of = [&](Index number) {
      return message("complete: rank ", c.rank(), " has not begun operation ", number);
    };
    for (Index const number : {-1, 77}) refused(of(number), [&] { c.complete(number); });
    Index const begun = c.begin_all_sum(x, x, 8);
    c.complete(begun);
    refused(of(begun), [&] { c.complete(begun); });
  }
  auto sent = good;
  sent[static_cast<std::size_t>(c.rank())] = 2;
  refused(" sends 2 elements to itself and expects 0", [&] { c.all_to_all(x, good, x, sent); });
  c.barrier();
}

}  // namespace headmix::test
