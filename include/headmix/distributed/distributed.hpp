#pragma once
// SPDX-License-Identifier: MIT
// Distributed: a backend on one of several ranks. Layer options select what is divided among the ranks
// (tensor_parallel, expert_parallel, DataParallel<L>); this backend runs their collective operations.
//
//   run_mpi(&argc, &argv, [](Mpi& ranks) {
//     Distributed<Cpu<float>, Mpi> backend(ranks);
//     Module<MultiHead<512, 8, 64, causal, tensor_parallel>, Distributed<Cpu<float>, Mpi>> m(1, backend);
//     ...
//   });

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "headmix/contract/backend_policy.hpp"
#include "headmix/contract/communicator.hpp"

namespace headmix {

/// A listener for gradients during a backward pass: see GradientSums.
class gradient_listener {
 public:
  virtual ~gradient_listener() = default;
  /// See ObservesGradients.
  virtual void gradient_done(void const* gradient) = 0;
  /// See ObservesGradients.
  virtual void between_kernels() = 0;
};

/// The kernels of a backend, and the communicator of this rank. All ranks call the same passes in the same order.
/// Copies share their state.
/// @tparam Backend Cpu, Cuda, Reference or your own
template <BackendPolicy Backend, Communicator C>
class Distributed : public Backend {
 public:
  using communicator_type = C;  ///< type of `communicator()`

  /// Keeps a reference to the communicator.
  explicit Distributed(C& communicator, Backend backend = Backend())
      : Backend(std::move(backend)), communicator_(&communicator), shared_(std::make_shared<shared>()) {}

  /// The communicator of this rank.
  [[nodiscard]] C& communicator() const { return *communicator_; }

  /// Sets the listener for gradients; null for none. It must outlive the passes.
  void set_listener(gradient_listener* listener) { shared_->listener = listener; }
  /// The listener for gradients.
  [[nodiscard]] gradient_listener* listener() const { return shared_->listener; }
  /// See ObservesGradients.
  void gradient_done(void const* gradient) {
    if (shared_->listener != nullptr) shared_->listener->gradient_done(gradient);
  }
  /// See ObservesGradients.
  void between_kernels() {
    if (shared_->listener != nullptr) shared_->listener->between_kernels();
    if constexpr (Overlaps<C>) {
      if (has_pending()) communicator_->advance();
    }
  }

  /// Registers operation `number` of the communicator, which reads `from` and writes `to`.
  void is_asynchronous(Index number, std::span<std::byte const> from, std::span<std::byte const> to) {
    shared_->operations.push_back({number, from, to});
  }
  /// See Asynchronous.
  [[nodiscard]] bool has_pending() const { return !shared_->operations.empty(); }
  /// See Asynchronous.
  void wait_for(std::span<std::byte const> touched) {
    wait_for_if([&](pending_operation const& o) { return meets(o.from, touched) || meets(o.to, touched); });
  }
  /// See Asynchronous.
  void wait_for() {
    wait_for_if([](pending_operation const&) { return true; });
  }
  /// See Asynchronous.
  void abandon() {
    if constexpr (Overlaps<C>) communicator_->abandon();
    shared_->operations.clear();
  }

 private:
  struct pending_operation {
    Index number;
    std::span<std::byte const> from, to;
  };
  struct shared {
    gradient_listener* listener = nullptr;
    std::vector<pending_operation> operations;
  };
  static bool meets(std::span<std::byte const> a, std::span<std::byte const> b) {
    std::less<> const before;
    return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
  }
  template <class F>
  void wait_for_if(F wanted) {
    if constexpr (Overlaps<C>) {
      auto& all = shared_->operations;
      for (std::size_t i = 0; i < all.size();) {
        if (!wanted(all[i])) {
          ++i;
          continue;
        }
        Index const number = all[i].number;
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        communicator_->complete(number);
      }
    }
  }

  C* communicator_;
  std::shared_ptr<shared> shared_;
};

}  // namespace headmix
