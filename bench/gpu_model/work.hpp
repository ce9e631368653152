#pragma once
// SPDX-License-Identifier: MIT
// What a launch has to do, from its kernel's operands. A kernel that is none of these counts as a launch and nothing
// more. Experts and heads are taken to be chosen equally often, and a causal mask to leave half of the keys.

#include <set>
#include <type_traits>

#include "headmix/backend/cuda.hpp"
#include "model.hpp"

namespace gpu_model {

using headmix::Index, headmix::view;

template <class T>
[[nodiscard]] double bytes_of(view<T> const& v) {
  if (v.data == nullptr) return 0;
  Index const matrices = v.stack_stride == 0 ? 1 : v.count;  // one for all
  return static_cast<double>(matrices * v.rows * v.cols) * static_cast<double>(sizeof(T));
}
// clang-format off
/// Of all buffers that a fused tree reads, each once.
template <class Tree>
[[nodiscard]] double bytes_of_tree(Tree const& t, std::set<void const*>& seen) {
  double bytes = 0;
  auto const add = [&](auto const& v) {
    if (seen.insert(v.data).second) bytes += bytes_of(v);
  };
  if constexpr (requires { t.data; t.row_stride; }) add(t);
  if constexpr (requires { t.v.data; }) add(t.v);
  if constexpr (requires { t.parts.data; }) add(t.parts);
  if constexpr (requires { t.table.data; }) add(t.table);
  if constexpr (requires { t.index.data; }) add(t.index);
  if constexpr (requires { t.a.row(0); }) bytes += bytes_of_tree(t.a, seen);
  if constexpr (requires { t.b.row(0); }) bytes += bytes_of_tree(t.b, seen);
  if constexpr (requires { t.tree.row(0); }) bytes += bytes_of_tree(t.tree, seen);
  return bytes;
}
// clang-format on
template <class Tree>
[[nodiscard]] double bytes_of_tree(Tree const& t) {
  std::set<void const*> seen;
  return bytes_of_tree(t, seen);
}
/// Of steps about rows. What one of them writes the next ones find in the cache.
inline void add_steps(work&, headmix::gpu::step_list<> const&, std::set<void const*>&) {}
template <class First, class... Rest>
void add_steps(work& w, headmix::gpu::step_list<First, Rest...> const& s, std::set<void const*>& seen) {
  if constexpr (requires { s.first.a.tree; }) {
    w.bytes_read += bytes_of_tree(s.first.a.tree, seen);
  } else {
    w.bytes_read += bytes_of_tree(s.first, seen);  // its tree, or a and index
  }
  w.bytes_written += bytes_of(s.first.y);
  seen.insert(s.first.y.data);
  add_steps(w, s.rest, seen);
}

template <template <headmix::AttentionMask, class, int...> class K, headmix::AttentionMask Mask, class Map, int... n>
constexpr bool is_causal(K<Mask, Map, n...> const&) {
  return std::is_same_v<Mask, headmix::causal>;
}
template <template <headmix::AttentionMask, class, int, class> class K, headmix::AttentionMask Mask, class Map, int n,
          class TensorMap>
constexpr bool is_causal(K<Mask, Map, n, TensorMap> const&) {
  return std::is_same_v<Mask, headmix::causal>;
}
/// Of all heads those that are chosen.
[[nodiscard]] inline double chosen_share(headmix::attention_extents const& x) {
  return x.heads_are_chosen() ? static_cast<double>(x.rows_per_token) / static_cast<double>(x.heads) : 1;
}
/// Rows times the keys that they see, times the columns of a head. A tile takes all keys that one of its rows sees.
template <class K>
[[nodiscard]] double attention_macs(K const& k) {
  headmix::attention_extents const& x = k.p.extents;
  double const rows = static_cast<double>(x.queries.rows * x.rows_per_token * headmix::gpu::heads_of_row(x));
  double const keys = static_cast<double>(x.keys.rows) / static_cast<double>(x.keys.count);
  // Tokens that a tile of rows, or of keys, reaches over.
  double tile =
      x.heads_are_chosen() ? K::rows / chosen_share(x) : K::rows / static_cast<double>(x.rows_per_token * x.group());
  if constexpr (requires { K::keys; }) tile += K::keys;
  double const seen = is_causal(k) ? (std::min)(keys, (keys + tile) / 2) : keys;
  return rows * seen * static_cast<double>(x.head_dim);
}

/// What the products of warpgroups read, and what is brought for them, by the tiles of the kernel.
template <class K>
void add_tiles(work& w, K const& k) {
  constexpr double a_step = 16 * 2;  // bytes of a row, 16 columns
  if constexpr (requires {
                  k.p.extents;
                  k.parts;
                }) {
    // A round of a warpgroup: products of its keys and values with a tile of rows, then two with what they become in
    // registers.
    double const width = static_cast<double>(k.p.extents.head_dim), rows = K::rows, keys = K::own_keys;
    double const rounds = w.macs / (4 * rows * keys * width);
    w.macs_of_hgmma = 4 * rows * keys * width / (2 * width / 16 + 2 * rows / 16);
    w.copied_bytes = rounds * K::own_keys / K::keys * 2 * rows * width * 2;
    w.shared_bytes = rounds * a_step * 2 * (width / 16 * (rows + keys) + rows / 16 * width) + w.copied_bytes;
  } else if constexpr (requires { k.p.extents; }) {
    // A round of a warpgroup: the products of its rows with a tile of keys, and in the gradient with values, then one
    // with what they become in registers.
    constexpr double products = requires { k.statistics; }
    ? 3 : 2;
    double const width = static_cast<double>(k.p.extents.head_dim), rows = K::own_rows, keys = K::keys;
    double const rounds = w.macs / (products * rows * keys * width), of_rows = (products - 1) * width / 16;
    w.macs_of_hgmma = products * rows * keys * width / (of_rows + keys / 16);
    w.copied_bytes = rounds * K::own_rows / K::rows * 2 * keys * width * 2;
    w.shared_bytes = rounds * a_step * (of_rows * (rows + keys) + keys / 16 * width) + w.copied_bytes;
  } else if constexpr (requires { K::sums_at; }) {
    // An expert's weights for each tile of y, for a cluster at once from the cache, and rows in groups. Sums are read
    // and written for each slot, and once more at the end: for four of them a load and a store, additions, and
    // selections of their order.
    double const slots = static_cast<double>(k.slots.count()), width = static_cast<double>(k.y.cols);
    double const row_bytes = static_cast<double>(k.inner) * 2,
                 groups = w.macs / (K::group_rows * width * row_bytes / 2);
    double const rows = slots * row_bytes * k.across();
    double const weights = w.blocks * static_cast<double>(k.slots.experts()) * row_bytes * K::columns;
    w.macs_of_hgmma = 64. * K::columns * 16;
    w.copied_bytes = rows + weights / K::cluster;
    w.shared_bytes = w.macs / w.macs_of_hgmma * a_step * (64 + K::columns) + rows + weights +
                     (slots + static_cast<double>(k.y.rows)) * width * 4 * 2;
    w.other_instructions = groups * K::group_rows * width / 4 / 32 * (2 + 4 + 4);
  } else if constexpr (requires { k.partial; }) {
    double const steps = w.macs / (static_cast<double>(K::rows) * K::columns * K::depth);
    w.macs_of_hgmma = 64. * 128 * 16;
    w.copied_bytes = steps * K::stage_bytes;
    w.shared_bytes = w.macs / w.macs_of_hgmma * a_step * (64 + 128) + w.copied_bytes;
  } else {
    double const columns = static_cast<double>(K::right_bytes) / (2 * K::depth), rows = K::rows;
    double const steps = w.macs / (rows * columns * K::depth);
    w.macs_of_hgmma = 64 * columns * 16;
    w.copied_bytes = steps * (K::left_bytes + K::right_bytes);
    w.shared_bytes = w.macs / w.macs_of_hgmma * a_step * (64 + columns) + w.copied_bytes;
  }
}
// clang-format off
template <class K>
[[nodiscard]] work work_of(K const& k, Index blocks) {
  work w;
  w.blocks = static_cast<double>(blocks);
  auto const reads = [&](auto const&... v) { w.bytes_read += (bytes_of(v) + ... + 0); };
  auto const writes = [&](auto const&... v) { w.bytes_written += (bytes_of(v) + ... + 0); };
  if constexpr (requires { k.p.extents; k.gated; k.tiles; }) {  // attention: scores, values
    reads(k.p.q, k.p.k, k.p.v);
    writes(k.p.o, k.p.lse, k.gated.o);
    if constexpr (requires { is_causal(k); }) w.macs = 2 * attention_macs(k);
    else w.known = false;
    w.blocks *= chosen_share(k.p.extents);
  } else if constexpr (requires { k.p.extents; k.statistics; k.parts; }) {  // d_k, d_v: two products for each of them
    reads(k.p.q, k.p.k, k.p.v, k.p.d_o);
    if (k.parts.count > 1) {
      w.bytes_written += static_cast<double>(k.parts.bytes());
    } else {
      writes(k.p.d_k, k.p.d_v);
    }
    w.macs = 4 * attention_macs(k);
  } else if constexpr (requires { k.p.extents; k.statistics; K::rows; is_causal(k); }) {  // d_q: three
    reads(k.p.q, k.p.k, k.p.v, k.p.d_o);
    writes(k.p.d_q);
    w.macs = 3 * attention_macs(k);
    w.blocks *= chosen_share(k.p.extents);
  } else if constexpr (requires { k.o; k.d_o; k.gated; k.cleared; }) {  // statistics of rows
    reads(k.o, k.d_o, k.gated.d, k.gated.by, k.lse);
    writes(k.gated.d_o, k.gated.d_by, k.cleared);
  } else if constexpr (requires { k.parts.bytes(); k.d_k; k.d_v; }) {  // sums of the parts of d_k and d_v
    w.bytes_read += static_cast<double>(k.parts.bytes());
    writes(k.d_k, k.d_v);
  } else if constexpr (requires { k.y; k.x; k.w; k.slots; K::rows; }) {  // y_s = x_s w_e
    reads(k.x, k.w, k.slots.perm);
    writes(k.y);
    double const slots = static_cast<double>(k.slots.count());
    w.macs = slots * static_cast<double>(k.w.rows * k.w.cols);
    w.blocks *= slots / K::rows /
                static_cast<double>(headmix::gpu::tile_bound(k.slots.count(), k.slots.experts() + 1, K::rows));
  } else if constexpr (requires { k.output.y; k.x; k.slots; k.inner; }) {  // without sums, by warpgroups
    reads(k.x, k.slots.perm);
    writes(k.output.y);
    if constexpr (requires { k.output.tree; }) {
      w.bytes_read += bytes_of_tree(k.output.tree);
      for (auto const& v : k.output.product) w.bytes_written += v.data == nullptr ? 0 : bytes_of(v);
    }
    double const slots = static_cast<double>(k.slots.count());
    double const weight = static_cast<double>(K::products * k.inner * k.output.y.cols);
    w.bytes_read += static_cast<double>(k.slots.experts()) * weight * sizeof(headmix::bfloat16);
    w.macs = slots * weight;
    w.blocks *= slots / K::rows /
                static_cast<double>(headmix::gpu::tile_bound(k.slots.count(), k.slots.experts() + 1, K::rows));
  } else if constexpr (requires { k.y; k.x; k.g; k.slots; k.partial; }) {  // dw_e = x_e^T g_e
    reads(k.x, k.g, k.slots.perm);
    w.bytes_written += bytes_of(k.y) * (k.parts > 1 ? 2 * k.parts : 1);
    w.bytes_read += k.parts == 1 && k.accumulate ? bytes_of(k.y) : 0;
    w.macs = static_cast<double>(k.slots.count() * k.y.rows * k.y.cols);
  } else if constexpr (requires { k.y; k.partial; k.parts + 1; }) {  // sums of the parts of dw
    w.bytes_read = bytes_of(k.y) * (2 * k.parts + k.accumulate);
    writes(k.y);
  } else if constexpr (requires { k.y; k.parts[0]; k.n; }) {  // sums over the slots of a row
    w.bytes_read = bytes_of(k.y) * (k.n + k.accumulate);
    writes(k.y);
  } else if constexpr (requires { k.z; k.p; k.index; k.x; k.w; }) {  // a router
    reads(k.x, k.w);
    writes(k.z, k.p, k.index, k.log_sum);
    w.macs = static_cast<double>(k.x.rows * k.x.cols * k.w.cols);
  } else if constexpr (requires { k.a; k.b; k.y; k.part_depth; K::tile; }) {  // products of any type, by full tiles
    reads(k.a, k.b);
    writes(k.y);
    w.scalar_macs = static_cast<double>(blocks * K::tile * K::tile * k.part_depth);
  } else if constexpr (requires { k.y; k.tree; k.first_row; }) {  // elements of a fused tree
    w.bytes_read = bytes_of_tree(k.tree) + (k.accumulate ? bytes_of(k.y) : 0);
    writes(k.y);
  } else if constexpr (requires { k.y; k.a.tree; }) {  // sums of a fused tree
    w.bytes_read = bytes_of_tree(k.a.tree);
    writes(k.y);
  } else if constexpr (requires { k.steps; k.rows; }) {  // several functions of a row
    std::set<void const*> seen;
    add_steps(w, k.steps, seen);
  } else {
    w.known = false;
  }
  if constexpr (headmix::gpu::for_warpgroups<K>) add_tiles(w, k);
  return w;
}
// clang-format on
template <class T, class A, class B>
[[nodiscard]] work work_of_library(view<T> const& y, view<A> const& a, view<B> const& b, bool accumulate) {
  work w;
  w.library = true;
  w.macs = static_cast<double>(y.size() * a.cols);
  w.bytes_read = bytes_of(a) + bytes_of(b) + (accumulate ? bytes_of(y) : 0);
  w.bytes_written = bytes_of(y);
  return w;
}

}  // namespace gpu_model
