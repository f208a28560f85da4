#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/options.h"
#include "levin/core/formats/package_file.h"
#include "levin/core/metric.h"
#include "levin/core/module.h"

namespace levin {

class CompiledEntry;

/// Options of ExportedModule; in YAML the init_args of `model:`.
struct LEVIN_API ExportedModuleOptions {
  std::filesystem::path package = {};  ///< the file of Python's levin_train.export()

  static void declare(OptionList<ExportedModuleOptions>& options);
};

/// A module that Python defines: its steps, compiled with their backward passes (docs/from-python.md). Parameters and buffers
/// have the names and values of the module's state_dict, and what the steps log is logged here. Its optimizer is that of the
/// YAML, or of a class below it:
///
///     class Digits : public levin::ExportedModule {
///      public:
///       Digits() : ExportedModule({.package = "digits.pt2"}) {}
///       levin::OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), 1e-3); }
///     };
class LEVIN_API ExportedModule : public Module {
 public:
  using Options = ExportedModuleOptions;

  /// Loads the package and its code. Throws IoError for a file that is damaged or no package, and ConfigError for one that is
  /// for another LibTorch, system or processor.
  explicit ExportedModule(const Options& options);
  ~ExportedModule() override;

  /// Throws ConfigError when a fit's device or precision is not the package's.
  void setup(Stage stage) override;
  /// The loss of the package's training step; its backward pass gives the gradients that were computed with it. Throws
  /// MisuseError for a batch that the package does not take, and ConfigError when a parameter is to be trained that was frozen
  /// when it was exported, or for what setup() refuses.
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override;
  void backward(const at::Tensor& loss) override;
  void validation_step(const Batch& batch, std::int64_t batch_idx) override;
  void test_step(const Batch& batch, std::int64_t batch_idx) override;
  /// What predict_step of the Python module returns, by its names.
  Batch predict_step(const Batch& batch, std::int64_t batch_idx) override;

  const PackageFile& package() const { return package_; }

 private:
  struct Step;
  void register_weights();
  std::unique_ptr<Step> make_step(const PackageEntry& entry);
  /// The metric object of an output, made when it is first named.
  Metric* metric_of(const Value& described);
  const Step* step(std::string_view name) const;
  std::vector<at::Tensor> run(const Step& step, const Batch& batch, std::int64_t batch_idx) const;
  /// Takes new values of buffers over, updates metrics and logs. Gives the loss, without gradients, and what else the step
  /// returns.
  StepOutput take(const Step& step, const std::vector<at::Tensor>& outputs);
  at::Tensor number(std::string_view name, std::int64_t batch_idx) const;
  void check_run() const;
  void check_frozen(const Step& step) const;

  PackageFile package_;
  std::vector<std::pair<std::string, at::Tensor>> frozen_;  ///< parameters without a gradient in the package
  std::map<std::string, Metric*, std::less<>> metrics_;
  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace levin
