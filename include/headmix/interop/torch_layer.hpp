#pragma once
// SPDX-License-Identifier: MIT
// Any layer as an operator of PyTorch with autograd: torch_layer, on the devices of torch.hpp and torch.cuh. Tensors
// are read and written in place, with any strides.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/autograd.h>
#include <torch/library.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/interop/torch_tensors.hpp"
#include "headmix/layer/use.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

/// Optional arguments of a torch_layer call, besides x and the parameters.
struct torch_options {
  std::vector<std::int64_t> sizes{};    ///< one for each of the layer's Sizes
  c10::optional<at::Tensor> context{};  ///< the second input of cross-attention
  c10::optional<at::Tensor> offsets{};  ///< Int32 [sequences + 1]: sequences of different lengths in x [tokens, D];
                                        ///< those of a GPU are not checked
  c10::optional<at::Tensor> context_offsets{};  ///< Int32 [context sequences + 1], likewise for the context
  bool training = true;                         ///< false: no noise, no dropout
};

struct torch_cpu;  // torch.hpp

/// A device of torch_layer: torch_cpu, torch_cuda (torch.cuh), or one of a backend of your own.
template <class D>
concept TorchDevice = requires(at::Device device, typename D::template place<float> place) {
  { D::type } -> std::convertible_to<at::DeviceType>;
  { D::autocast } -> std::convertible_to<c10::DispatchKey>;
  typename D::guard;  // of an at::Device: makes it the current one while it lives
  requires BackendPolicy<std::remove_cvref_t<decltype(place.backend)>>;
  place.enter();                                                        // before a pass: on PyTorch's current stream
  place.leave();                                                        // after it
  { place.memory(std::int64_t{}) } -> std::convertible_to<at::Tensor>;  // bytes for the length of a pass
};

/// A layer as an operator of PyTorch:
///
///   using Layer = Moh<64, 16, TwoStage<1, 3, 1>, causal>;
///   using Moh_op = torch_layer<Layer>;
///   TORCH_LIBRARY(mine, m) { Moh_op::define(m, "mine::moh"); }            // torch.ops.mine.moh in Python
///   auto const y_and_losses = Moh_op::apply(x, parameters);              // in C++, registered or not
///
/// x is [sequences, tokens, D], or [tokens, D]: one sequence, or those of the option `offsets`. The results are y, with
/// the leading extents of x, and the layer's losses, one number each, all with gradients. First derivatives only.
/// Instead of the option `padded`, use offsets.
/// @tparam Parameters type_list of the layer's parameters in the order of the tensors; void: the module's order
/// @tparam Sizes type_list of dynamic sizes that no tensor has, e.g. type_list<Layer::top_k>
/// Losses of a layer in bfloat16 are floats. Under autocast, x, the parameters and the context are cast to autocast's
/// type, or to float where Scalars lacks it.
/// @tparam Scalars the supported scalar types: any of float, double and bfloat16; x has one of them
/// @tparam Device of the tensors. For both, one operator is defined for the CPU and implemented by another torch_layer
///   for the GPU
template <LayerPolicy L, class Parameters = void, class Sizes = type_list<>, class Scalars = type_list<float, double>,
          class Device = torch_cpu>
class torch_layer {
  static_assert(TorchDevice<Device>,
                "headmix: Device is torch_cpu (interop/torch.hpp) or torch_cuda (interop/torch.cuh)");
  template <class Scalar>
  using backend = std::remove_cvref_t<decltype(std::declval<typename Device::template place<Scalar>&>().backend)>;
  template <class Scalar>
  using module_of = Module<L, backend<Scalar>>;
  using first = nth<0, Scalars>;
  using leaves = typename module_of<first>::program_type::leaves;
  using losses = typename L::losses;
  using y_type = std::remove_cvref_t<decltype(L::y)>;
  static constexpr bool keeps_width = std::is_same_v<cols<y_type>, cols<typename L::x>>;
  static_assert(keeps_width || cols<y_type>::value != dynamic, "headmix: y has the width of x, or a static one");
  static constexpr Index y_cols = keeps_width ? dynamic : cols<y_type>::value;  ///< dynamic: of x

 public:
  /// The parameters, in order.
  using parameter_list = typename std::conditional_t<std::is_void_v<Parameters>,
                                                     std::type_identity<typename module_of<first>::parameter_leaves>,
                                                     std::type_identity<Parameters>>::type;
  /// Results and parameters.
  using tensors = std::vector<at::Tensor>;
  /// An optional argument.
  using optional_tensor = c10::optional<at::Tensor>;

  /// y and the losses.
  static tensors apply(at::Tensor const& x, at::TensorList parameters, torch_options const& o = {}) {
    return call(x, parameters, o.context, o.offsets, o.context_offsets, o.sizes, o.training);
  }
  /// apply() with the operator's signature.
  static tensors call(at::Tensor const& x, at::TensorList parameters, optional_tensor const& context,
                      optional_tensor const& offsets, optional_tensor const& context_offsets, at::IntArrayRef sizes,
                      bool training) {
    check_count("parameters", names(), parameters.size());
    optional_tensor random;
    if constexpr (detail::contains<leaves, random_key>) {  // drawn here, visible to torch.manual_seed and the compiler
      if (training) {
        random = at::randint((std::numeric_limits<std::int64_t>::max)(), {1}, x.options().dtype(at::kLong));
      }
    }
    arguments const a{x, parameters, context, offsets, context_offsets, random, sizes};
    return differentiable(a, std::make_index_sequence<parameter_list::size>{});
  }
  /// Registers `name`, "library::operator", with the registrations for torch.compile, and two helpers:
  /// `name`_parameters(int seed, ScalarType) -> Tensor[] and `name`_names() -> str[]. Call it in TORCH_LIBRARY.
  static void define(torch::Library& library, std::string const& name) {
    op_name() = name;
    auto const def = [&](std::string const& schema, auto f) { library.def((name + schema).c_str(), f); };
    def("(Tensor x, Tensor[] parameters, Tensor? context=None, Tensor? offsets=None, Tensor? context_offsets=None, "
        "int[] sizes=[], bool training=True) -> Tensor[]",
        &call);
    def("_names() -> str[]", &names);
    def("_parameters(int seed, ScalarType dtype) -> Tensor[]",
        [](std::int64_t seed, at::ScalarType type) { return parameters(static_cast<std::uint64_t>(seed), type); });
    library.def((name +
                 "_forward(Tensor x, Tensor[] parameters, Tensor? context, Tensor? offsets, Tensor? context_offsets, "
                 "Tensor? random, int[] sizes) -> Tensor[]")
                    .c_str());
    library.def((name +
                 "_backward(Tensor state, Tensor[] dy, Tensor x, Tensor[] parameters, Tensor? context, int[] needed) "
                 "-> Tensor[]")
                    .c_str());
    library.impl((name + "_forward").c_str(), torch::dispatch(c10::DispatchKey::Meta, &forward_shapes));
    library.impl((name + "_backward").c_str(), torch::dispatch(c10::DispatchKey::Meta, &backward_shapes));
    implement(library, name);
  }
  /// Registers the passes on this device for an operator that a torch_layer for another device defines, of the same
  /// layer and parameters. Call it in TORCH_LIBRARY_FRAGMENT.
  static void implement(torch::Library& library, std::string const& name) {
    op_name() = name;
    library.impl(name.c_str(), torch::dispatch(Device::autocast, &call_in_autocast));
    library.impl((name + "_forward").c_str(), torch::dispatch(Device::type, &forward));
    library.impl((name + "_backward").c_str(), torch::dispatch(Device::type, &backward));
  }

  /// The parameters' names, in order.
  static std::vector<std::string> names() { return names_of(parameter_list{}); }
  /// Tensors on the current device with the initial values of a Module of this seed, which require gradients.
  /// @param sizes dynamic sizes, at<Layer::model_dim>(64), ...
  template <Extent... X>
  static tensors parameters(std::uint64_t seed, at::ScalarType type, size_value<X>... sizes) {
    return with_scalar(type, "dtype", [&]<class Scalar>() {
      typename Device::template place<Scalar> place;
      module_of<Scalar> const m(seed, place.backend, sizes...);
      tensors all;
      for_each(parameter_list{}, [&]<class P>() {
        auto const v = m.template get<P>().value;
        std::vector<std::int64_t> shape{v.rows, v.cols};
        if (v.count != 1) shape.insert(shape.begin(), v.count);
        auto const options = at::TensorOptions(Device::type).dtype(type);
        all.push_back(at::from_blob(const_cast<Scalar*>(v.data), shape, options).clone().set_requires_grad(true));
      });
      return all;
    });
  }

 private:
  struct arguments {
    at::Tensor const& x;
    at::TensorList parameters;
    optional_tensor const &context, &offsets, &context_offsets, &random;
    at::IntArrayRef sizes;
  };
  /// The operator's name; empty if it is not registered, which happens before templates' variables are initialised.
  static std::string& op_name() {
    static std::string name;
    return name;
  }

  /// The type of losses: double, or float.
  static at::ScalarType loss_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }
  static bool has_type(at::ScalarType type) {
    bool found = false;
    for_each(Scalars{}, [&]<class Scalar>() { found = found || detail::torch_type<Scalar> == type; });
    return found;
  }
  /// call() under autocast: numbers of autocast's type, or of float where the layer was not compiled for that.
  static tensors call_in_autocast(at::Tensor const& x, at::TensorList parameters, optional_tensor const& context,
                                  optional_tensor const& offsets, optional_tensor const& context_offsets,
                                  at::IntArrayRef sizes, bool training) {
    c10::impl::ExcludeDispatchKeyGuard const outside(Device::autocast);
    auto const wanted = detail::torch_autocast_type(Device::type);
    auto const type = has_type(wanted) ? wanted : at::kFloat;
    auto const cast = [&](at::Tensor const& t) { return t.scalar_type() == at::kDouble ? t : t.to(type); };
    tensors all;
    for (auto const& p : parameters) all.push_back(cast(p));
    return call(cast(x), all, context ? optional_tensor(cast(*context)) : context, offsets, context_offsets, sizes,
                training);
  }

  template <class... P>
  static std::vector<std::string> names_of(type_list<P...>) {
    return {std::string(type_name<P>())...};
  }
  static void check_count(char const* what, std::vector<std::string> const& expected, std::size_t found) {
    if (expected.size() == found) return;
    std::string all;
    for (auto const& name : expected) all += (all.empty() ? " (" : ", ") + name;
    fail(what, ": expected ", expected.size(), all, all.empty() ? "" : ")", ", found ", found);
  }
  /// Calls f with the scalar type.
  template <class F>
  static auto with_scalar(at::ScalarType type, char const* what, F f) {
    tensors result;
    std::string expected;
    bool found = false;
    for_each(Scalars{}, [&]<class Scalar>() {
      constexpr auto mine = detail::torch_type<Scalar>;
      expected += (expected.empty() ? "" : " or ") + std::string(c10::toString(mine));
      if (mine == type) found = true, result = f.template operator()<Scalar>();
    });
    if (!found) fail(what, ": expected numbers of type ", expected, ", found ", c10::toString(type));
    return result;
  }

  /// The elements of a known leaf in memory of a device. Kept: a pass that a graph records cannot copy from the host.
  template <class Leaf, class Number>
  static at::Tensor known_elements(at::Device device, Index n, Index m) {
    static std::mutex mutex;
    static auto& all = *new std::map<std::pair<std::int64_t, std::pair<Index, Index>>, at::Tensor>;  // outlives devices
    std::scoped_lock const one(mutex);
    at::Tensor& elements = all[{device.index(), {n, m}}];
    if (!elements.defined()) {
      elements = at::empty({n, m}, detail::torch_type<Number>);
      detail::write_known<Leaf>(static_cast<Number*>(elements.data_ptr()), n, m);
      elements = elements.to(device);
    }
    return elements;
  }

  template <class Scalar>
  struct pass final : detail::torch_pass {
    using program_type = typename module_of<Scalar>::program_type;
    typename Device::template place<Scalar> place;
    program_type program{place.backend};
    at::Tensor x, context, kept, offsets, context_offsets, key;  // kept alive
    at::Device const device;
    tensors known;  // constants of the layer

    explicit pass(arguments const& a) : x(detail::torch_rows(a.x, "x")), device(a.x.device()) {
      check_count("sizes", names_of(Sizes{}), a.sizes.size());
      std::size_t i = 0;
      for_each(Sizes{}, [&]<class X>() { program.set(X{}, a.sizes[i++]); });
      if (a.context) context = detail::torch_rows(*a.context, "context");
      if (a.offsets) offsets = detail::torch_offsets(*a.offsets, a.x, "x");
      if (a.context_offsets && a.context) {
        context_offsets = detail::torch_offsets(*a.context_offsets, *a.context, "context");
      }
      if constexpr (detail::contains<leaves, random_key>) key = detail::torch_key(a.random, device);
      bind(a.parameters, {});
      program.bind_tokens(detail::torch_segments(a.x, offsets));
      if (a.context) program.bind_context(detail::torch_segments(*a.context, context_offsets));
    }
    template <class T>
    [[nodiscard]] view<T> as_view(at::Tensor const& t, std::string_view name) const {
      return from_torch<T>(t, name, device);
    }
    /// Binds the gradients of x, the parameters and the context; undefined ones are not computed.
    void bind(at::TensorList parameters, tensors const& gradients) {
      known.clear();
      for_each(typename program_type::leaves{}, [&]<class Leaf>() {
        using number = typename program_type::template type<Leaf>;
        auto const with = [&](at::Tensor const& value, std::size_t which) {
          view<number> gradient;
          if (which < gradients.size() && gradients[which].defined()) {
            gradient = as_view<number>(gradients[which], "a gradient");
          }
          program.bind(Leaf{}, as_view<number const>(value, type_name<Leaf>()), gradient);
        };
        if constexpr (std::is_same_v<Leaf, typename L::x>) {
          with(x, 0);
        } else if constexpr (Parameter<Leaf>) {
          static_assert(detail::contains<parameter_list, Leaf>,
                        "headmix: Parameters must name all parameters of the layer");
          constexpr std::size_t which = detail::position_in<parameter_list, Leaf>::value;
          with(parameters[which], which + 1);
        } else if constexpr (std::is_same_v<Leaf, random_key>) {
          program.bind(Leaf{}, as_view<number const>(key, "the random key"));
        } else if constexpr (detail::is_known::value<Leaf>) {
          Index const n = program.template extent<rows<Leaf>>(), m = program.template extent<cols<Leaf>>();
          known.push_back(known_elements<Leaf, number>(device, n, m));
          program.bind(Leaf{}, as_view<number const>(known.back(), type_name<Leaf>()));
        } else {
          static_assert(detail::is_context_of<L, Leaf>, "headmix: torch_layer does not know how to bind this leaf");
          if (!context.defined()) fail("context: expected a tensor, found none");
          with(context, parameter_list::size + 1);
        }
      });
    }
    static std::span<std::byte> span_of(at::Tensor const& t) {
      return {static_cast<std::byte*>(t.data_ptr()), static_cast<std::size_t>(t.numel())};
    }
    /// Binds the kept part of the workspace, and a rest for the length of a call, which is returned.
    [[nodiscard]] at::Tensor bind_workspace() {
      std::size_t const all = program.workspace_bytes(), first = program.kept_bytes();
      at::Tensor const rest = place.memory(static_cast<std::int64_t>(all - first));
      if (!kept.defined() || span_of(kept).size() < first) {
        kept = at::empty({static_cast<std::int64_t>(first)}, at::TensorOptions(device).dtype(at::kByte));
      }
      program.bind_workspace(span_of(kept), span_of(rest));
      return rest;
    }
    /// True if the result is made in the workspace: a view, or what the backward pass reads, since callers may change
    /// their tensor.
    [[nodiscard]] bool copies_result() const {
      return !detail::is_reshaped<detail::memory_of<typename program_type::result>> || program.backward_reads_result();
    }
    void bind_result(at::Tensor const& y) {
      if constexpr (detail::is_reshaped<detail::memory_of<typename program_type::result>>) {
        program.bind_result(as_view<Scalar>(y, "y"));
      }
    }
    /// y and the losses.
    tensors forward(at::Tensor const& like) {
      auto const options = like.options().requires_grad(false);
      tensors all{detail::torch_empty_like(like.detach(), y_cols)};
      bool const in_place = !copies_result();
      if (in_place) bind_result(detail::torch_rows(all[0], "y"));
      at::Tensor const rest = bind_workspace();
      auto const y = program.forward();
      if (!in_place) {
        all[0].copy_(at::from_blob(const_cast<Scalar*>(y.data), {y.rows, y.cols}, {y.row_stride, y.col_stride}, options)
                         .view(all[0].sizes()));
      }
      for_each(losses{}, [&]<class Loss>() {
        using number = typename program_type::template type<Loss>;
        auto const loss = program.get(Loss{});
        all.push_back(at::from_blob(const_cast<number*>(loss.data), {}, options.dtype(detail::torch_type<number>))
                          .to(loss_type(detail::torch_type<Scalar>), /*non_blocking*/ false, /*copy*/ true));
      });
      return all;
    }
    tensors backward(at::TensorList dy, at::Tensor const& x_now, at::TensorList parameters,
                     detail::torch_optional const& context_now, at::IntArrayRef needed) override {
      // The copy that the forward pass made, if any.
      if (x.is_alias_of(x_now) || x_now.dim() == 2) x = detail::torch_rows(x_now, "x");
      if (context_now && (context.is_alias_of(*context_now) || context_now->dim() == 2)) {
        context = detail::torch_rows(*context_now, "context");
      }
      tensors gradients(needed.size()), wanted;
      for (std::size_t i = 0; i < needed.size(); ++i) {
        if (needed[i] == 0) continue;
        bool const input = i == 0 || i > parameters.size();
        auto const& like = i == 0 ? x_now : input ? *context_now : parameters[i - 1];
        auto const made =
            at::zeros_like(like, like.options(), input ? at::MemoryFormat::Contiguous : at::MemoryFormat::Preserve);
        gradients[i] = input ? detail::torch_rows(made, "a gradient") : made;
        wanted.push_back(made);
      }
      place.enter();
      bind(parameters, gradients);
      at::Tensor const rows = dy[0].reshape({-1, dy[0].size(-1)}).contiguous();
      bool const anew = !program.has_run();  // the values have moved, for example to another device and back
      // A result that was not copied is not read, and its tensor may be gone: other memory stands in.
      at::Tensor const stand_in = anew ? at::empty_like(rows) : rows;
      if (!copies_result()) bind_result(stand_in);
      at::Tensor const rest = bind_workspace();
      if (anew) {
        program.forward();
      } else {
        program.resume();
      }
      using weight = accumulator_t<Scalar>;
      tensors numbers;  // kept alive
      std::vector<view<weight const>> weights;
      for (std::size_t i = 1; i < dy.size(); ++i) {
        numbers.push_back(dy[i].to(detail::torch_type<weight>).reshape({1}));
        weights.push_back(as_view<weight const>(numbers.back(), "the gradient of a loss"));
      }
      program.backward(as_view<Scalar const>(rows, "the gradient of y"), std::span<view<weight const> const>(weights));
      place.leave();
      return wanted;
    }
  };

  // ---- the operators: y, the losses and a state; gradients from the state ----

  static tensors forward(at::Tensor const& x, at::TensorList parameters, optional_tensor const& context,
                         optional_tensor const& offsets, optional_tensor const& context_offsets,
                         optional_tensor const& random, at::IntArrayRef sizes) {
    if (x.device().type() != Device::type) {
      fail("x: expected a tensor on a device of type ", c10::DeviceTypeName(Device::type, true), ", found one on ",
           x.device().str());
    }
    typename Device::guard const current(x.device());
    return with_scalar(x.scalar_type(), "x", [&]<class Scalar>() {
      auto p =
          std::make_unique<pass<Scalar>>(arguments{x, parameters, context, offsets, context_offsets, random, sizes});
      auto results = p->forward(x);
      p->place.leave();
      results.push_back(detail::torch_state::tensor_of(&op_name(), std::move(p)));
      return results;
    });
  }
  static tensors forward_shapes(at::Tensor const& x, at::TensorList, optional_tensor const&, optional_tensor const&,
                                optional_tensor const&, optional_tensor const&, at::IntArrayRef) {
    tensors all{detail::torch_empty_like(x, y_cols)};
    for (int i = 0; i < losses::size; ++i) all.push_back(at::empty({}, x.options().dtype(loss_type(x.scalar_type()))));
    all.push_back(at::empty({sizeof(detail::torch_state)}, x.options().dtype(at::kByte)));
    return all;
  }
  static void check_backward(at::TensorList dy, at::TensorList parameters, optional_tensor const& context,
                             at::IntArrayRef needed) {
    std::size_t const results = 1 + std::size_t{losses::size}, inputs = 1 + parameters.size() + (context ? 1 : 0);
    if (dy.size() != results) {
      fail("dy: expected ", results, " tensors, for y and each loss, found ", dy.size());
    }
    check_count("parameters", names(), parameters.size());
    if (needed.size() != inputs) {
      fail("needed: expected ", inputs, " numbers, for x, the parameters and the context, found ", needed.size());
    }
  }
  static tensors backward(at::Tensor const& state, at::TensorList dy, at::Tensor const& x, at::TensorList parameters,
                          optional_tensor const& context, at::IntArrayRef needed) {
    check_backward(dy, parameters, context, needed);
    typename Device::guard const current(x.device());
    return detail::torch_state::in(&op_name(), state).backward(dy, x, parameters, context, needed);
  }
  static tensors backward_shapes(at::Tensor const&, at::TensorList dy, at::Tensor const& x, at::TensorList parameters,
                                 optional_tensor const& context, at::IntArrayRef needed) {
    check_backward(dy, parameters, context, needed);
    tensors all;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (needed[i] == 0) continue;
      bool const input = i == 0 || i > parameters.size();
      auto const& like = i == 0 ? x : input ? *context : parameters[i - 1];
      all.push_back(input ? detail::torch_empty_like(like, dynamic) : at::empty_like(like));
    }
    return all;
  }
  /// Calls f, or the operator if it is registered: tracers see operators only.
  template <class F, class... A>
  static tensors through(char const* part, F* f, A const&... a) {
    if (op_name().empty()) return f(a...);
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow((op_name() + part).c_str(), "")
        .template typed<F>()
        .call(a...);
  }

  // ---- autograd ----

  struct function : torch::autograd::Function<function> {
    template <class... T>  // one by one: PyTorch does not look into a list
    static tensors forward(torch::autograd::AutogradContext* ctx, arguments const* a, T const&...) {
      tensors results = through("_forward", &torch_layer::forward, a->x, a->parameters, a->context, a->offsets,
                                a->context_offsets, a->random, a->sizes);
      ctx->saved_data["state"] = results.back();
      results.pop_back();
      tensors saved{a->x};  // keeps their memory, and detects writes to it
      saved.insert(saved.end(), a->parameters.begin(), a->parameters.end());
      if (a->context) saved.push_back(*a->context);
      ctx->save_for_backward(std::move(saved));
      return results;
    }
    static tensors backward(torch::autograd::AutogradContext* ctx, tensors dy) {
      if (at::GradMode::is_enabled()) fail("second derivatives are not supported; use create_graph=false");
      auto const saved = ctx->get_saved_variables();
      constexpr std::size_t n = parameter_list::size;
      std::vector<std::int64_t> needed;
      for (std::size_t i = 0; i < saved.size(); ++i) needed.push_back(ctx->needs_input_grad(i) ? 1 : 0);
      auto const context = saved.size() > n + 1 ? optional_tensor(saved[n + 1]) : optional_tensor();
      auto const found =
          through("_backward", &torch_layer::backward, ctx->saved_data["state"].toTensor(), at::TensorList(dy),
                  saved[0], at::TensorList(saved).slice(1, n), context, at::IntArrayRef(needed));
      tensors gradients(n + 3);  // undefined for arguments that are no tensors
      auto next = found.begin();
      for (std::size_t i = 0; i < needed.size(); ++i) {
        if (needed[i] != 0) gradients[i + 1] = *next++;
      }
      return gradients;
    }
  };
  template <std::size_t... Which>
  static tensors differentiable(arguments const& a, std::index_sequence<Which...>) {
    return function::apply(&a, a.x, a.parameters[Which]..., a.context);
  }
};

}  // namespace headmix
