#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/config/value.h"
#include "levin/core/data_module.h"

namespace levin {

struct PredictorParts;

/// What Predictor::load() does not find in the file.
struct LEVIN_API PredictorOptions {
  /// Libraries that have the classes of the module and its data, as `plugins:` of YAML. Code of these runs.
  std::vector<std::filesystem::path> plugins = {};
  /// Takes the weights, instead of a module of the class and hyper-parameters that the file names.
  std::shared_ptr<Module> module = nullptr;
  /// The same for the data module.
  std::shared_ptr<DataModule> data = nullptr;
  /// Replaces some of the module's hyper-parameters: {{"package", "here/digits.pt2"}}.
  Value hparams = Value(Value::Map{});
  std::string device = "cpu";                     ///< or "cuda:0"
  std::optional<PrecisionFormat> precision = {};  ///< unset: that of the run, or of the package
};

/// A trained model in a program of your own, without a Trainer, its data or its YAML. It gives the numbers of `levin predict`,
/// to the bit: with the weights that are evaluated (averages), in evaluation mode and without gradients, in the run's
/// precision, and with what the data module learnt from the training data (DataModule::prepare()).
///
///     const auto predictor = levin::Predictor::load("logs/version_0/checkpoints/best.ckpt");
///     const levin::Batch prediction = predictor.predict({{"features", rows}});
///     std::cout << prediction["value"];
///
/// The module's setup(), configure_model(), on_load_checkpoint(), on_predict_model_eval() and on_predict_start() have run, and
/// its hooks of a batch's transfer run with each batch. Its trainer() throws; data_module() is there. Threading: any number of
/// threads may predict at the same time, as long as the module's predict_step changes nothing.
class LEVIN_API Predictor {
 public:
  /// `file`: a checkpoint, the folder of a run, "logs/version_0:best", or a package of levin_train.export(); with
  /// PredictorOptions::module any file of weights. Throws IoError for a damaged file, and ConfigError when the file does not
  /// say which module it is of, the class is unknown, or the weights do not fit.
  static Predictor load(const std::filesystem::path& file, PredictorOptions options = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// What predict_step returns for a batch with the data's own values: of TableDataModule, "features" [N, …] has the columns of
  /// the file but the label, those of categories as numbers into TableDataModule::categories(). As `levin predict` computes,
  /// in 64 bits where the file's numbers need them, a tensor of 64 bits gives its bits, too.
  Batch predict(Batch batch) const;
  /// The same for records by the names of columns, with categories as texts: {{"color", "red"}, {"weight", 3.5}}. Throws
  /// MisuseError where a column is missing.
  Batch predict_records(const std::vector<Value>& records) const;
  /// The same for a batch as the data module's loaders give it.
  Batch predict_prepared(Batch batch) const;

  /// What is known of the data, such as class_names.
  const DataFacts& facts() const;
  Module& module() const;
  /// Null: the file names none.
  const DataModule* data_module() const;

 private:
  explicit Predictor(std::unique_ptr<PredictorParts> parts);
  std::unique_ptr<PredictorParts> parts_;
};

}  // namespace levin
