#pragma once
// SPDX-License-Identifier: MIT
// The page table of a cache. Copied sequences share pages; a write to a shared page copies it first.

#include <algorithm>
#include <span>
#include <vector>

#include "headmix/contract/attention_problem.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

/// The size of a decoder's cache.
struct cache_size {
  Index sequences = 1;      ///< most sequences at a time
  Index tokens = 0;         ///< most tokens of a sequence
  Index page = 0;           ///< rows of a page, rounded up to the backend's `cache_rows`; 0: a sequence is one page
  Index pages = 0;          ///< of all sequences together; 0: enough for all sequences
  bool own_memory = true;   ///< false: see Decoder::bind_cache
  Index context = 0;        ///< most tokens of the context of a sequence
  Index context_pages = 0;  ///< as `pages`, for the contexts
};

/// The pages of sequences, on the host. Nothing allocates after construction.
class PageTable {
 public:
  /// The pages of the tokens, or those of the contexts.
  /// @param granule  the rows of a page are a multiple of it
  PageTable(cache_size const& size, Index granule, bool of_context = false)
      : tokens_(of_context ? size.context : size.tokens), of_context_(of_context) {
    Index const pages = of_context ? size.context_pages : size.pages;
    check("sequences", size.sequences, 1, max_int);
    check(of_context ? "context" : "tokens", tokens_, 1, max_int);
    check("page", size.page, 0, max_elements);
    check(of_context ? "context_pages" : "pages", pages, 0, max_int);
    Index const rows = size.page == 0 ? tokens_ : (std::min)(size.page, tokens_);
    page_rows_ = (checked((rows + granule - 1) / granule) * granule).value;
    per_sequence_ = (tokens_ + page_rows_ - 1) / page_rows_;
    Index const all = (checked(size.sequences) * per_sequence_).value;
    check("sequences times pages of each", all, 1, max_elements);
    pages_ = pages == 0 ? all : pages;
    check("pages of all sequences", pages_, 1, max_int);
    table_.assign(static_cast<std::size_t>(all), 0);
    new_table_ = table_;
    length_.assign(static_cast<std::size_t>(size.sequences), 0);
    new_length_ = length_;
    held_.assign(static_cast<std::size_t>(size.sequences), 0);
    new_held_ = held_;
    owns_.assign(static_cast<std::size_t>(size.sequences), true);
    users_.assign(static_cast<std::size_t>(pages_), 0);
    for (Index p = pages_; p-- > 0;) free_.push_back(static_cast<Int>(p));
    copies_.reserve(static_cast<std::size_t>(size.sequences));
    count_ = size.sequences;
  }

  /// The number of sequences.
  [[nodiscard]] Index sequences() const { return count_; }
  /// The number of positions of sequence b.
  [[nodiscard]] Index length(Index b) const {
    check_sequence(b);
    return length_[at(b)];
  }
  /// The number of positions of a page.
  [[nodiscard]] Index page_rows() const { return page_rows_; }
  /// The largest number of pages of a sequence.
  [[nodiscard]] Index pages_per_sequence() const { return per_sequence_; }
  /// The number of pages.
  [[nodiscard]] Index pages() const { return pages_; }
  /// The number of pages without a sequence.
  [[nodiscard]] Index free_pages() const { return static_cast<Index>(free_.size()); }
  /// The pages of each sequence, [sequences(), pages_per_sequence()].
  [[nodiscard]] view<Int const> table() const { return {table_.data(), count_, per_sequence_}; }
  /// The length of each sequence.
  [[nodiscard]] std::span<Int const> lengths() const { return std::span(length_).first(at(count_)); }

  /// A page that must be copied before it is written to: its first `rows` rows.
  struct copy {
    Int from, to;  ///< pages
    Index rows;    ///< to copy
  };
  /// Reserves room for rows(b) more positions of each sequence b: all of them or, with an error, none. Returns the
  /// pages to copy. Lengths are unchanged.
  template <class Rows>
  std::span<copy const> reserve(Rows rows) {
    for (Index b = 0; b < count_; ++b) {
      Index const n = length_[at(b)];
      if (rows(b) > tokens_ - n) {
        fail("Decoder: sequence ", b, " has ", n, of_context_ ? " context" : "", " tokens, ", rows(b),
             " more are more than the ", tokens_, " that its cache holds");
      }
    }
    Index needed = 0;
    for (Index b = 0; b < count_; ++b) {
      needed += missing_pages(b, rows(b));
      // The last writer of a shared page needs no copy.
      owns_[at(b)] = rows(b) == 0 || !shares_last_page(b);
      if (!owns_[at(b)]) ++needed, --users_[at(last_page(b))];
    }
    for (Index b = 0; b < count_; ++b) {
      if (!owns_[at(b)]) ++users_[at(last_page(b))];
    }
    if (needed > free_pages()) {
      fail("Decoder: ", needed, " more ", of_context_ ? "context " : "", "pages are needed, ", free_pages(), " of ",
           pages_, " are free; drop or rewind sequences, or give cache_size more pages");
    }
    copies_.clear();
    for (Index b = 0; b < count_; ++b) {
      if (!owns_[at(b)]) {
        Int& last = last_page(b);
        copies_.push_back({last, take(), length_[at(b)] % page_rows_});
        --users_[at(last)];
        last = copies_.back().to;
      }
      for (Index n = missing_pages(b, rows(b)); n > 0; --n) page(b, held_[at(b)]++) = take();
    }
    return copies_;
  }
  /// Undoes the latest reserve(), if nothing was appended after it.
  void release_reserved() {
    // In reverse order, which restores the order of the free pages.
    std::size_t copied = copies_.size();
    for (Index b = count_; b-- > 0;) {
      release(b, pages_for(length_[at(b)]));
      if (owns_[at(b)]) continue;
      copy const& c = copies_[--copied];
      free_.push_back(c.to);
      --users_[at(c.to)], ++users_[at(c.from)];
      last_page(b) = c.from;
    }
  }
  /// Appends rows(b) positions to each sequence b, for which there is room.
  template <class Rows>
  void append(Rows rows) {
    for (Index b = 0; b < count_; ++b) length_[at(b)] += static_cast<Int>(rows(b));
  }
  /// Sequence i becomes the former sequence order[i], or an empty one for -1. Sequences that are not named are dropped.
  void reorder(std::span<Index const> order) {
    auto const n = static_cast<Index>(order.size());
    if (n > static_cast<Index>(length_.size())) {
      fail("Decoder::reorder: ", n, " sequences are more than the ", length_.size(), " that the cache was made for");
    }
    for (Index const b : order) {
      if (b != -1) check_sequence(b);
    }
    for (Index i = 0; i < n; ++i) {
      Index const b = order[at(i)];
      new_length_[at(i)] = b == -1 ? 0 : length_[at(b)];
      new_held_[at(i)] = pages_for(new_length_[at(i)]);
      for (Index p = 0; p < new_held_[at(i)]; ++p) {
        Int const shared = page(b, p);
        new_table_[at(i * per_sequence_ + p)] = shared;
        ++users_[at(shared)];
      }
    }
    for (Index b = 0; b < count_; ++b) release(b, 0);
    table_.swap(new_table_);
    length_.swap(new_length_);
    held_.swap(new_held_);
    count_ = n;
  }
  /// Drops the positions of sequence b from `length` on.
  void rewind(Index b, Index length) {
    check_sequence(b);
    if (0 > length || length > length_[at(b)]) {
      fail("Decoder::rewind: sequence ", b, " has ", length_[at(b)], " tokens; expected a length of 0 .. ",
           length_[at(b)], ", found ", length);
    }
    release(b, pages_for(length));
    length_[at(b)] = static_cast<Int>(length);
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  static void check(char const* what, Index n, Index least, Index most) {
    if (least > n) fail("cache_size: ", what, " is ", n, ", expected at least ", least);
    if (n > most) fail("cache_size: ", what, " is ", n, ", expected at most ", most);
  }
  void check_sequence(Index b) const {
    if (0 > b || b >= count_) fail("Decoder: there is no sequence ", b, "; there are ", count_);
  }
  [[nodiscard]] Index pages_for(Index n) const { return (n + page_rows_ - 1) / page_rows_; }
  [[nodiscard]] Index missing_pages(Index b, Index rows) const {
    return (std::max)(pages_for(length_[at(b)] + rows) - held_[at(b)], Index{0});
  }
  [[nodiscard]] Int& page(Index b, Index p) { return table_[at(b * per_sequence_ + p)]; }
  /// The page of the last position of a non-empty sequence.
  [[nodiscard]] Int& last_page(Index b) { return page(b, pages_for(length_[at(b)]) - 1); }
  /// True if the next position is on a page that other sequences share.
  [[nodiscard]] bool shares_last_page(Index b) {
    return length_[at(b)] % page_rows_ != 0 && users_[at(last_page(b))] > 1;
  }
  Int take() {
    Int const p = free_.back();
    free_.pop_back();
    users_[at(p)] = 1;
    return p;
  }
  /// Releases the pages of sequence b from page `first` on.
  void release(Index b, Index first) {
    for (; held_[at(b)] > first; --held_[at(b)]) {
      Int const last = page(b, held_[at(b)] - 1);
      if (--users_[at(last)] == 0) free_.push_back(last);
    }
  }

  Index tokens_, page_rows_, per_sequence_, pages_, count_;
  bool of_context_;
  std::vector<Int> table_, new_table_, length_, new_length_, free_;
  std::vector<Index> held_, new_held_, users_;  // pages of each sequence; number of sequences of each page
  std::vector<bool> owns_;                      // sequences that need not copy their last page
  std::vector<copy> copies_;
};

}  // namespace headmix
