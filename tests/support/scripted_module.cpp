// A module for text cases, which logs and fails as lists in YAML say: `plugins: [@build@/tests/plugins/libscripted_module.so]`.
#include <levin/levin.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using levin::Batch;
using Script = std::vector<double>;
using Scripts = std::map<std::string, Script>;

struct ScriptedOptions {
  Scripts train;
  Scripts validation;
  Scripts test;
  Script loss = {0.0};
  Script gradients = {1.0};
  std::int64_t batches = 4;
  std::int64_t validation_batches = 1;
  std::int64_t test_batches = 1;
  std::int64_t batch_size = 1;
  std::int64_t memory = 1'000'000;
  bool on_epoch = false;
  std::string fails_in;
  std::int64_t fails_at = 0;
  std::string fails_by = "throw";
  std::filesystem::path trace;
  std::vector<std::string> states;

  static void declare(levin::OptionList<ScriptedOptions>& options) {
    using O = ScriptedOptions;
    options.add("train", &O::train, "Values to log by name, one for each batch; the last stays");
    options.add("validation", &O::validation, "The same, one for each validation");
    options.add("test", &O::test, "The same, one for each test");
    options.add("loss", &O::loss, "The loss of each batch");
    options.add("gradients", &O::gradients, "The gradient of each batch for the one weight, which begins at 0");
    options.add("batches", &O::batches, "Training batches; 0: no loader");
    options.add("validation_batches", &O::validation_batches, "Validation batches; 0: no loader");
    options.add("test_batches", &O::test_batches, "Test batches; 0: no loader");
    options.add("batch_size", &O::batch_size, "Samples of a batch");
    options.add("memory", &O::memory, "Samples of the largest training batch that does not run out of memory");
    options.add("on_epoch", &O::on_epoch, "Log the means of train: over an epoch too");
    options.add("fails_in", &O::fails_in, "A hook that fails");
    options.add("fails_at", &O::fails_at, "After so many calls of it");
    options.add("fails_by", &O::fails_by, "How").choices({"throw", "signal", "kill"});
    options.add("trace", &O::trace, "A file for the names of the hooks that are called, one a line");
    options.add("states", &O::states, "What a file `states` gets of callbacks' states: a/b after each epoch, and at the end");
  }
};

double at(const Script& script, std::int64_t index) {
  return script[std::min(static_cast<std::size_t>(index), script.size() - 1)];
}

/// A value in a few letters: 1, 0.5, false, the name of a file without its folder, a:1,b:2.
std::string brief(const levin::Value& value) {
  std::ostringstream text;
  if (value.is_null()) text << '-';
  if (value.is_bool()) text << (value.as_bool() ? "true" : "false");
  if (value.is_number()) text << value.as_double();
  if (value.is_string()) text << std::filesystem::path(value.as_string()).filename().string();
  if (value.is_list()) {
    for (const auto& entry : value.as_list()) text << (text.tellp() > 0 ? "," : "") << brief(entry);
  }
  if (value.is_map()) {
    for (const auto& [key, entry] : value.as_map())
      text << (text.tellp() > 0 ? "," : "") << brief(levin::Value(key)) << ':' << brief(entry);
  }
  return text.str();
}

class Scripted : public levin::Module {
 public:
  using Options = ScriptedOptions;
  explicit Scripted(ScriptedOptions options) : options_(std::move(options)) {
    weight_ = register_parameter("weight", torch::zeros({1}));
  }

  levin::StepOutput training_step(const Batch& batch, std::int64_t) override {
    if (batch.batch_size() > options_.memory) throw std::bad_alloc();
    enter("training_step");
    const std::int64_t number = trainer().total_batch_idx();
    for (const auto& [name, script] : options_.train)
      log(name, at(script, number), {.on_epoch = options_.on_epoch, .prog_bar = true});
    return ((weight_ - weight_.detach()) * at(options_.gradients, number) + at(options_.loss, number)).sum();
  }
  void validation_step(const Batch&, std::int64_t) override { enter("validation_step"); }
  void test_step(const Batch&, std::int64_t) override { enter("test_step"); }
  Batch predict_step(const Batch& batch, std::int64_t) override {
    enter("predict_step");
    return batch[0] * 2;
  }
  levin::OptimizerSetups configure_optimizers() override { return levin::SGD(parameters(), 0.01); }

  levin::LoaderPtr train_dataloader() override { return options_.batches == 0 ? nullptr : loader(options_.batches); }
  levin::LoaderList val_dataloaders() override { return loaders(options_.validation_batches); }
  levin::LoaderList test_dataloaders() override { return loaders(options_.test_batches); }
  levin::LoaderList predict_dataloaders() override { return loaders(options_.test_batches); }

  void on_validation_epoch_end() override {
    enter("on_validation_epoch_end");
    if (!trainer().sanity_checking()) log_all(options_.validation, validations_++);
  }
  void on_test_epoch_end() override {
    enter("on_test_epoch_end");
    log_all(options_.test, tests_++);
  }
  void on_train_epoch_end() override {
    enter("on_train_epoch_end");
    write_states();
  }
  void on_fit_end() override {
    enter("on_fit_end");
    write_states();
    write_states("end: ");
  }
#define LEVIN_TRACED(hook, ...) \
  void hook(__VA_ARGS__) override { enter(#hook); }
  LEVIN_TRACED(prepare_data)
  LEVIN_TRACED(setup, levin::Stage)
  LEVIN_TRACED(configure_model)
  LEVIN_TRACED(on_fit_start)
  LEVIN_TRACED(on_train_start)
  LEVIN_TRACED(on_train_epoch_start)
  LEVIN_TRACED(on_train_batch_start, const Batch&, std::int64_t)
  LEVIN_TRACED(on_before_zero_grad, torch::optim::Optimizer&)
  LEVIN_TRACED(on_before_backward, const at::Tensor&)
  LEVIN_TRACED(on_after_backward)
  LEVIN_TRACED(on_before_optimizer_step, torch::optim::Optimizer&)
  LEVIN_TRACED(on_train_batch_end, const levin::StepOutput&, const Batch&, std::int64_t)
  LEVIN_TRACED(on_train_end)
  LEVIN_TRACED(teardown, levin::Stage)
  LEVIN_TRACED(on_validation_start)
  LEVIN_TRACED(on_validation_epoch_start)
  LEVIN_TRACED(on_validation_end)
  LEVIN_TRACED(on_test_start)
  LEVIN_TRACED(on_test_end)
  LEVIN_TRACED(on_save_checkpoint, levin::Checkpoint&)
  LEVIN_TRACED(on_load_checkpoint, const levin::Checkpoint&)
  LEVIN_TRACED(on_exception, const std::exception&)
#undef LEVIN_TRACED

 private:
  void enter(const std::string& hook) {
    if (!options_.trace.empty()) std::ofstream(options_.trace, std::ios::app) << hook << '\n';
    if (hook != options_.fails_in || calls_++ != options_.fails_at) return;
    if (options_.fails_by == "throw") throw std::runtime_error("scripted failure");
    std::raise(options_.fails_by == "kill" ? SIGKILL : SIGTERM);
  }
  void write_states(const std::string& before = "") const {
    std::vector<std::string> values;
    for (const std::string& key : options_.states) {
      for (const auto& callback : trainer().callbacks()) {
        const levin::Value state = callback->state_dict();
        if (state.is_map() && state.contains(key)) values.push_back(brief(state.at(key)));
      }
    }
    if (values.empty()) return;
    std::ofstream file("states", std::ios::app);
    file << before;
    for (const std::string& value : values) file << (&value == &values.front() ? "" : "/") << value;
    file << ' ';
  }
  void log_all(const Scripts& scripts, std::int64_t number) {
    for (const auto& [name, script] : scripts) log(name, at(script, number), {.prog_bar = true});
  }
  levin::LoaderPtr loader(std::int64_t batches) const {
    const at::Tensor numbers = torch::arange(batches * options_.batch_size, torch::kFloat).unsqueeze(1);
    return levin::DataLoader(std::make_shared<levin::TensorDataset>(Batch{{"x", numbers}}),
                             {.batch_size = options_.batch_size});
  }
  levin::LoaderList loaders(std::int64_t batches) const {
    if (batches == 0) return {};
    return loader(batches);
  }

  ScriptedOptions options_;
  at::Tensor weight_;
  std::int64_t validations_ = 0;
  std::int64_t tests_ = 0;
  std::int64_t calls_ = 0;  ///< of the hook that fails
};

LEVIN_REGISTER_MODULE(Scripted, "Logs and fails as lists say");

}  // namespace
