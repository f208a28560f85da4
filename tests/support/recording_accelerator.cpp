#include "support/recording_accelerator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace levin::test {
namespace {

// LibTorch keeps this key for tests: it comes before all others.
constexpr c10::DispatchKey kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

struct RecordedCall {
  c10::OperatorHandle call;
  c10::impl::LocalDispatchKeySet keys;  ///< with which it was called: under autocast, or not
  torch::jit::Stack arguments;
  torch::jit::Stack results;
};

std::vector<RecordedCall>* recording = nullptr;

template <class Visit>
void each_tensor(const torch::jit::Stack& values, const Visit& visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) visit(tensor);
    }
  }
}

bool shares_memory(const at::Tensor& tensor, const torch::jit::Stack& values) {
  bool shares = false;
  each_tensor(values, [&](const at::Tensor& other) { shares |= tensor.storage().is_alias_of(other.storage()); });
  return shares;
}

/// Those of a call's results that are no view of its arguments.
std::vector<at::Tensor> made_by(const torch::jit::Stack& results, const torch::jit::Stack& arguments) {
  std::vector<at::Tensor> made;
  each_tensor(results, [&](const at::Tensor& tensor) {
    if (!shares_memory(tensor, arguments)) made.push_back(tensor);
  });
  return made;
}

bool is_composite(const c10::OperatorHandle& call) {
  using c10::DispatchKey;
  return call.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
         !call.hasKernelForDispatchKey(DispatchKey::CPU) && !call.hasKernelForDispatchKey(DispatchKey::AutogradCPU);
}

void record_call(const c10::OperatorHandle& call, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kMode);
  // What it consists of, or autocast makes of it, comes by itself.
  const bool is_cast =
      keys.has_any(c10::autocast_dispatch_keyset) && call.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
  if (is_composite(call) || is_cast) return call.redispatchBoxed(rest, stack);
  TORCH_CHECK(call.schema().name() != "aten::_local_scalar_dense", "operation not permitted when stream is capturing");
  const c10::impl::ExcludeDispatchKeyGuard not_again(kMode);
  const auto arguments = static_cast<std::ptrdiff_t>(call.schema().arguments().size());
  const c10::impl::LocalDispatchKeySet keys_then = c10::impl::tls_local_dispatch_key_set();
  torch::jit::Stack given(stack->end() - arguments, stack->end());
  call.redispatchBoxed(rest, stack);
  const auto results = static_cast<std::ptrdiff_t>(call.schema().returns().size());
  if (recording != nullptr) recording->push_back({call, keys_then, std::move(given), {stack->end() - results, stack->end()}});
}

class RecordedCalls final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work) override {
    const c10::impl::IncludeDispatchKeyGuard with_mode(kMode);
    recording = &calls_;
    try {
      work();
    } catch (...) {
      recording = nullptr;
      throw;
    }
    recording = nullptr;
    for (const RecordedCall& call : calls_) {
      for (const at::Tensor& made : made_by(call.results, call.arguments)) spoil(made);
    }
  }
  void replay() override {
    const at::NoGradGuard no_grad;
    for (const RecordedCall& call : calls_) {
      torch::jit::Stack stack = call.arguments;
      {
        const c10::impl::ForceDispatchKeyGuard as_then(call.keys);
        call.call.callBoxed(&stack);
      }
      const std::vector<at::Tensor> made = made_by(stack, call.arguments);
      const std::vector<at::Tensor> places = made_by(call.results, call.arguments);
      for (std::size_t index = 0; index < places.size(); ++index) places[index].detach().copy_(made.at(index));
    }
  }

 private:
  /// Behind autograd's back, to which this is no change.
  static void spoil(const at::Tensor& tensor) {
    if (tensor.scalar_type() != at::kFloat || !tensor.is_non_overlapping_and_dense()) return;
    std::fill_n(static_cast<float*>(tensor.data_ptr()), tensor.numel(), std::numeric_limits<float>::quiet_NaN());
  }

  std::vector<RecordedCall> calls_;
};

}  // namespace

std::unique_ptr<DeviceGraph> RecordingAccelerator::make_graph(const at::Device&, const DeviceGraph*) const {
  return std::make_unique<RecordedCalls>();
}

}  // namespace levin::test

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&levin::test::record_call>());
}
