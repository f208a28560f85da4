// What a run changes in the process, and what other threads may do with a Trainer.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <catch2/catch.hpp>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/value_json.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using torch::autograd::AnomalyMode;

namespace {

/// What entry points set for the process, as text.
std::string settings_of_process() {
  const at::Context& context = at::globalContext();
  std::ostringstream text;
  text << context.deterministicAlgorithms() << context.deterministicAlgorithmsWarnOnly() << AnomalyMode::is_enabled()
       << AnomalyMode::should_check_nan() << " " << at::get_num_threads() << " " << torch::GradMode::is_enabled()
       << at::autocast::is_autocast_enabled(at::kCPU) << at::autocast::get_autocast_dtype(at::kCPU) << context.benchmarkCuDNN()
       << static_cast<int>(context.float32MatmulPrecision()) << at::autocast::is_autocast_cache_enabled()
       << c10::InferenceMode::is_enabled() << torch::get_default_dtype();
  return text.str();
}

struct RestoredSettings {
  std::string before = settings_of_process();
  int threads = at::get_num_threads();
  ~RestoredSettings() {
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setFloat32MatmulPrecision("highest");
    AnomalyMode::set_enabled(false, true);
    at::set_num_threads(threads);
  }
};

/// Runs `work` on another thread. Gives the error that it ended with.
std::string error_on_another_thread(const std::function<void()>& work) {
  std::string text;
  std::thread([&] { text = error_of<MisuseError>(work); }).join();
  return text;
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// Each step takes, and frees, some blocks of 1 MiB or more.
class LargeSteps : public Module {
 public:
  explicit LargeSteps(std::int64_t mebibytes) { weight = register_parameter("weight", torch::ones({mebibytes, 512, 512})); }
  StepOutput training_step(const Batch&, std::int64_t batch_idx) override {
    if (batch_idx == 10) faults_before = page_faults();
    if (batch_idx == 60) faults = page_faults() - faults_before;
    at::Tensor value = weight;
    for (int index = 0; index < 4; ++index) value = value * 1.01 + weight;
    return value.mean();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  at::Tensor weight;
  long faults_before = 0;
  long faults = -1;
};

}  // namespace

TEST_CASE("what an entry point sets for the process is afterwards what it was, also after an error") {
  const RestoredSettings restored;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/GENERATE(true, false));
  AnomalyMode::set_enabled(GENERATE(true, false), /*check_nan=*/false);
  at::set_num_threads(2);
  const std::string before = settings_of_process();
  TrainerOptions options = quiet_options(1);
  options.threads = 1;
  options.deterministic = GENERATE(true, false);
  options.detect_anomaly = static_cast<bool>(options.deterministic);
  options.benchmark = true;
  options.float32_matmul_precision = MatmulPrecision::kMedium;
  options.precision = PrecisionFormat::kBfloat16Mixed;
  HookTrace trace;
  RecordingModule module(trace);
  std::string within;
  bool fails = false;
  trace.on_entry = [&](const std::string& entry) {
    if (entry == "M.on_after_backward") within = settings_of_process();
    if (entry == "M.on_train_batch_end" && fails) throw std::runtime_error("broken");
  };
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(1, 2), {FixedLoader::of_rows(1, 2)});
  CHECK(within != before);
  CHECK(settings_of_process() == before);
  trainer.validate(module, {FixedLoader::of_rows(1, 2)}, {.verbose = false});
  CHECK(settings_of_process() == before);
  fails = true;
  CHECK_THROWS_WITH(Trainer(options).fit(module, FixedLoader::of_rows(1, 2)), "broken");
  CHECK(settings_of_process() == before);
}

TEST_CASE("deterministic, benchmark and float32_matmul_precision set what PyTorch's functions set") {
  const RestoredSettings restored;
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(true);
  HookTrace trace;
  RecordingModule module(trace);
  const auto within_fit = [&](const char* options) {
    std::string within;
    trace.on_entry = [&](const std::string&) {
      within = format("{} {} {} {}", context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(),
                      context.benchmarkCuDNN(), static_cast<int>(context.float32MatmulPrecision()));
    };
    const Value given = parse_json(options);
    const auto read = read_options<TrainerOptions>(given);
    CHECK(write_options(read).at("deterministic") ==
          (given.contains("deterministic") ? given.at("deterministic") : Value(false)));
    Trainer(quiet(read)).fit(module, FixedLoader::of_rows(1, 2));
    return within;
  };
  CHECK(within_fit(R"({"max_epochs": 1})") == "false false true 0");
  CHECK(within_fit(R"({"max_epochs": 1, "deterministic": true})") == "true false false 0");
  CHECK(within_fit(R"({"max_epochs": 1, "deterministic": "warn", "benchmark": true})") == "true true true 0");
  CHECK(within_fit(R"({"max_epochs": 1, "benchmark": false, "float32_matmul_precision": "high"})") == "false false false 1");
  CHECK(within_fit(R"({"max_epochs": 1, "float32_matmul_precision": "medium"})") == "false false true 2");
}

TEST_CASE("another thread may end a run while hooks run, and writes or changes nothing else of it") {
  const TemporaryFolder folder;
  HookTrace trace;
  RecordingModule module(trace);
  Trainer trainer(quiet_options(-1));
  const std::filesystem::path file = folder / "saved.ckpt";
  const std::map<std::string, std::function<void()>> calls = {
      {"save_checkpoint()", [&] { trainer.save_checkpoint(file); }},
      {"save_checkpoint_in_background()", [&] { trainer.save_checkpoint_in_background(file); }},
      {"set_accumulate_grad_batches()", [&] { trainer.set_accumulate_grad_batches(2); }},
      {"set_callback_metric()", [&] { trainer.set_callback_metric("x", 1); }},
      {"log_to_loggers()", [&] {
         trainer.log_to_loggers({{"x", 1.0}});
       }}};
  std::size_t refused = 0;
  trace.on_entry = [&](const std::string& entry) {
    if (entry != "M.on_train_batch_end") return;
    for (const auto& [name, call] : calls) {
      CHECK_THAT(error_on_another_thread(call),
                 Catch::StartsWith(name + " was called by another thread than the one that runs"));
      ++refused;
    }
    CHECK(error_on_another_thread([&] { trainer.stop("a person said so"); }).empty());
  };
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  CHECK(trainer.stop_reason() == "a person said so");
  CHECK(refused >= calls.size());
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(trainer.accumulate_grad_batches() == 1);
  CHECK_FALSE(trainer.callback_metrics().contains("x"));
  // Between two runs no hook runs.
  CHECK(error_on_another_thread(calls.at("save_checkpoint()")).empty());
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("a Trainer within a hook of another one leaves that one's thread what it was") {
  const TemporaryFolder folder;
  HookTrace trace;
  RecordingModule module(trace);
  RecordingModule other_module(trace);
  TrainerOptions options = quiet_options(1);
  Trainer trainer(options);
  Trainer other(options);
  bool within = false;
  trace.on_entry = [&](const std::string& entry) {
    if (entry != "M.on_train_batch_end") return;
    if (std::exchange(within, true)) return trainer.save_checkpoint(folder / "saved.ckpt");
    other.fit(other_module, FixedLoader::of_rows(1, 2));
  };
  trainer.fit(module, FixedLoader::of_rows(1, 2));
  CHECK(std::filesystem::exists(folder / "saved.ckpt"));
}

TEST_CASE("memory that a step has freed serves the next one") {
  const std::int64_t mebibytes = GENERATE(1, 5);
  TrainerOptions options = quiet_options(1);
  options.process.memory = true;
  LargeSteps module(mebibytes);
  Trainer(options).fit(module, FixedLoader::of_rows(61, 1));
  REQUIRE(module.faults >= 0);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what is freed
  // 50 steps take 2,000 pages for each MiB of the weight; without that some 1,000 of them are cleared again each time. With it
  // 2,000 once, and more where the kernel is short of memory and takes back what it can.
  CHECK(module.faults < 10'000 * mebibytes);
#endif
}
