#include "levin/callbacks/operator_calls.h"

#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include <memory>

namespace levin {

namespace {

struct ObservedStep {
  const std::function<void(const OperatorCall&)>& observe;
  int depth = 0;
  OperatorCall call{};

  void report() const {
    const at::RecordFunctionGuard unobserved(/*is_enabled=*/false);
    observe(call);
  }
};
thread_local ObservedStep* observed_step = nullptr;

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  if (observed_step == nullptr || observed_step->depth++ > 0) return nullptr;
  const auto inputs = function.inputs();
  observed_step->call = {function.name(), std::vector<c10::IValue>(inputs.begin(), inputs.end()), {}};
  observed_step->report();
  return nullptr;
}

void operator_ends(const at::RecordFunction& function, at::ObserverContext*) {
  if (observed_step == nullptr || --observed_step->depth > 0) return;
  const auto& outputs = function.outputs();
  if (!outputs.empty() && outputs[0].isTensor()) observed_step->call.output = outputs[0].toTensor();
  observed_step->report();
  observed_step->call = {};
}

}  // namespace

at::Tensor observed_loss(FitPreview& preview, const std::function<void(const OperatorCall&)>& observe) {
  ObservedStep step{observe};
  observed_step = &step;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  const auto end = c10::make_scope_exit([&] {
    at::removeCallback(handle);
    observed_step = nullptr;
  });
  return preview.loss();
}

std::optional<CrossEntropy> cross_entropy_of(const OperatorCall& call) {
  if (call.name != "aten::cross_entropy_loss" && !call.name.starts_with("aten::nll_loss")) return std::nullopt;
  const at::Tensor& scores = call.inputs[0].toTensor();
  const at::Tensor& targets = call.inputs[1].toTensor();
  if (!at::isIntegralType(targets.scalar_type(), /*includeBool=*/false)) return std::nullopt;
  return CrossEntropy{scores.size(scores.dim() == 1 ? 0 : 1), targets, call.inputs[4].toInt(), call.inputs[3].toInt() == 1};
}

}  // namespace levin
