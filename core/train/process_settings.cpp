#include "levin/core/train/process_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <cstdlib>
#include <string>

#include "levin/core/console/console.h"

namespace levin {

ProcessSettings::ProcessSettings(const TrainerOptions& options)
    : deterministic_(at::globalContext().deterministicAlgorithms()),
      only_warns_(at::globalContext().deterministicAlgorithmsWarnOnly()),
      anomaly_(torch::autograd::AnomalyMode::is_enabled()),
      checks_nan_(torch::autograd::AnomalyMode::should_check_nan()),
      benchmark_(at::globalContext().benchmarkCuDNN()),
      threads_(at::get_num_threads()) {
  // Not a number that depends on the load: the order of sums depends on it, and so the last bits of results.
  if (options.threads) at::set_num_threads(static_cast<int>(*options.threads));
  at::Context& context = at::globalContext();
  if (options.deterministic) {
    context.setDeterministicAlgorithms(true, options.deterministic.only_warns());
    // cuBLAS reads it when it is first used; LibTorch refuses matrix products without.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  }
  // Which algorithm is measured to be the fastest may differ from run to run.
  if (options.benchmark || options.deterministic) context.setBenchmarkCuDNN(options.benchmark.value_or(false));
  if (options.deterministic && options.benchmark == true) {
    Console::instance().warn_once(
        "benchmark: true chooses among deterministic algorithms by their speed, so that runs may still differ.",
        "benchmark beside deterministic", Speaker::kRun);
  }
  if (options.float32_matmul_precision) {
    matmul_precision_ = static_cast<MatmulPrecision>(context.float32MatmulPrecision());
    context.setFloat32MatmulPrecision(std::string(choice_name(*options.float32_matmul_precision)));
  }
  if (options.detect_anomaly) torch::autograd::AnomalyMode::set_enabled(true);
}

ProcessSettings::~ProcessSettings() {
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic_, only_warns_);
  context.setBenchmarkCuDNN(benchmark_);
  if (matmul_precision_) context.setFloat32MatmulPrecision(std::string(choice_name(*matmul_precision_)));
  torch::autograd::AnomalyMode::set_enabled(anomaly_, checks_nan_);
}

}  // namespace levin
