#pragma once
// SPDX-License-Identifier: MIT
// Distributed: a backend on one of several ranks. A layer says what is divided among them (tensor_parallel,
// expert_parallel, DataParallel<L>); with this backend its collective operations run.
//
//   run_mpi(&argc, &argv, [](Mpi& ranks) {
//     Distributed<Cpu<float>, Mpi> backend(ranks);
//     Module<MultiHead<512, 8, 64, causal, tensor_parallel>, Distributed<Cpu<float>, Mpi>> m(1, backend);
//     ...
//   });

#include <memory>
#include <utility>

#include "headmix/contract/backend_policy.hpp"
#include "headmix/contract/communicator.hpp"

namespace headmix {

/// What hears of gradients while a backward pass makes them: see GradientSums.
class gradient_listener {
 public:
  virtual ~gradient_listener() = default;
  /// See HearsGradients.
  virtual void gradient_done(void const* gradient) = 0;
  /// See HearsGradients.
  virtual void between_kernels() = 0;
};

/// All kernels of a backend, and the communicator of this rank. All ranks call the same passes in the same order.
/// Copies are the same backend: what is said to one, all hear.
/// @tparam Backend Cpu, Cuda, Reference or your own
template <BackendPolicy Backend, Communicator C>
class Distributed : public Backend {
 public:
  using backend_type = Backend;
  using communicator_type = C;

  /// Keeps a reference to the communicator.
  explicit Distributed(C& communicator, Backend backend = Backend())
      : Backend(std::move(backend)), communicator_(&communicator), listener_(std::make_shared<gradient_listener*>()) {}

  /// That of this rank.
  [[nodiscard]] C& communicator() const { return *communicator_; }

  /// Who hears of gradients from now on; null for nobody. It outlives the passes.
  void set_listener(gradient_listener* listener) { *listener_ = listener; }
  /// The one who hears.
  [[nodiscard]] gradient_listener* listener() const { return *listener_; }
  /// See HearsGradients.
  void gradient_done(void const* gradient) {
    if (*listener_ != nullptr) (*listener_)->gradient_done(gradient);
  }
  /// See HearsGradients.
  void between_kernels() {
    if (*listener_ != nullptr) (*listener_)->between_kernels();
  }

 private:
  C* communicator_;
  std::shared_ptr<gradient_listener*> listener_;
};

}  // namespace headmix
