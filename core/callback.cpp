#include "levin/core/callback.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

namespace levin {

Callback::~Callback() = default;

std::string Callback::state_key() const { return class_name(); }

std::string Callback::class_name() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status),
                                                         std::free);
  const std::string full = status == 0 ? demangled.get() : typeid(*this).name();
  const std::size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

Value Callback::settings() const { return {}; }
void Callback::load_state_dict(const Value&) {}
void Callback::setup(Trainer&, Module&, Stage) {}
void Callback::teardown(Trainer&, Module&, Stage) {}
void Callback::on_fit_start(Trainer&, Module&) {}
void Callback::on_fit_end(Trainer&, Module&) {}
void Callback::on_sanity_check_start(Trainer&, Module&) {}
void Callback::on_sanity_check_end(Trainer&, Module&) {}
void Callback::on_train_start(Trainer&, Module&) {}
void Callback::on_train_end(Trainer&, Module&) {}
void Callback::on_train_epoch_start(Trainer&, Module&) {}
void Callback::on_train_epoch_end(Trainer&, Module&) {}
void Callback::on_train_batch_start(Trainer&, Module&, const Batch&, std::int64_t) {}
void Callback::on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t) {}
void Callback::on_before_zero_grad(Trainer&, Module&, torch::optim::Optimizer&) {}
void Callback::on_before_backward(Trainer&, Module&, const at::Tensor&) {}
void Callback::on_after_backward(Trainer&, Module&) {}
void Callback::on_before_optimizer_step(Trainer&, Module&, torch::optim::Optimizer&) {}
void Callback::on_validation_start(Trainer&, Module&) {}
void Callback::on_validation_end(Trainer&, Module&) {}
void Callback::on_validation_epoch_start(Trainer&, Module&) {}
void Callback::on_validation_epoch_end(Trainer&, Module&) {}
void Callback::on_validation_batch_start(Trainer&, Module&, const Batch&, std::int64_t, std::int64_t) {}
void Callback::on_validation_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t, std::int64_t) {}
void Callback::on_test_start(Trainer&, Module&) {}
void Callback::on_test_end(Trainer&, Module&) {}
void Callback::on_test_epoch_start(Trainer&, Module&) {}
void Callback::on_test_epoch_end(Trainer&, Module&) {}
void Callback::on_test_batch_start(Trainer&, Module&, const Batch&, std::int64_t, std::int64_t) {}
void Callback::on_test_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t, std::int64_t) {}
void Callback::on_predict_start(Trainer&, Module&) {}
void Callback::on_predict_end(Trainer&, Module&) {}
void Callback::on_predict_epoch_start(Trainer&, Module&) {}
void Callback::on_predict_epoch_end(Trainer&, Module&) {}
void Callback::on_predict_batch_start(Trainer&, Module&, const Batch&, std::int64_t, std::int64_t) {}
void Callback::on_predict_batch_end(Trainer&, Module&, const Batch&, const Batch&, std::int64_t, std::int64_t) {}
void Callback::on_rank_metrics(Trainer&, Module&, const MetricRow&, const std::vector<MetricMap>&) {}
void Callback::on_exception(Trainer&, Module&, const std::exception&) {}
void Callback::on_save_checkpoint(Trainer&, Module&, Checkpoint&) {}
void Callback::on_load_checkpoint(Trainer&, Module&, const Checkpoint&) {}

}  // namespace levin
