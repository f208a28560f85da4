#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/base/shared.h"
#include "levin/core/batch_loader.h"
#include "levin/core/config/value.h"

namespace levin {

/// A returned loader: `return levin::DataLoader(…);`, or a shared_ptr.
using LoaderPtr = Shared<BatchLoader>;

/// The loaders of an evaluation, one after another: `{first, second}`. A single one needs no braces.
class LEVIN_API LoaderList : public std::vector<LoaderPtr> {
 public:
  using std::vector<LoaderPtr>::vector;
  LoaderList() = default;
  template <class Loader>
  requires(std::convertible_to<Loader, LoaderPtr> && !std::is_null_pointer_v<std::remove_cvref_t<Loader>>)
      LoaderList(Loader&& loader) {
    emplace_back(std::forward<Loader>(loader));
  }
  /// A loader of these batches, on each rank its own, in this order.
  LoaderList(std::vector<Batch> batches);
  LoaderList(std::vector<LoaderPtr> loaders) : std::vector<LoaderPtr>(std::move(loaders)) {}
  LoaderList(const std::vector<std::shared_ptr<BatchLoader>>& loaders)
      : std::vector<LoaderPtr>(loaders.begin(), loaders.end()) {}
};

/// What a data module knows about its samples after setup(), for modules that adapt to any data.
struct LEVIN_API DataFacts {
  std::vector<std::int64_t> features = {};   ///< shape of a sample of batch["features"]; empty: not known
  std::optional<std::int64_t> classes = {};  ///< batch["label"] is from 0 to classes - 1
  double label_mean = 0.0;                   ///< of the training data, where batch["label"] is a measurement
  double label_deviation = 1.0;
  std::vector<std::string> class_names = {};  ///< texts that batch["label"] stands for, by number; empty: it is a number
};

/// The source of a run's data. Override the loaders that you have; the others are not called.
class LEVIN_API DataModule {
 public:
  virtual ~DataModule() = default;
  /// Called: on one process of each host, before setup(), while the others wait. For downloads; set no state here.
  virtual void prepare_data() {}
  /// Called: on every rank, once per entry point.
  virtual void setup(Stage) {}
  virtual void teardown(Stage) {}
  virtual LoaderPtr train_dataloader() { return nullptr; }
  virtual LoaderList val_dataloaders() { return {}; }
  virtual LoaderList test_dataloaders() { return {}; }
  virtual LoaderList predict_dataloaders() { return {}; }
  /// The same on all ranks. Modules reach it through Trainer::data_module(), from their setup() on.
  virtual DataFacts facts() const { return {}; }
  /// Its entry in the run's hparams.yaml.
  const Value& hparams() const { return hparams_; }
  void set_hparams(Value hparams) { hparams_ = std::move(hparams); }
  /// Saved in checkpoints. load_state_dict() is called after setup() and before the module's setup() and configure_model(), so
  /// that facts() describe the data that the weights were trained on.
  virtual Value state_dict() const { return {}; }
  virtual void load_state_dict(const Value&) {}
  virtual void on_exception(const std::exception&) {}

  // For a Predictor, which has no files: called after load_state_dict(), without setup(), on any thread.

  /// Makes a batch with the data's own values, in its units, into one as the loaders give it. Default: it is one.
  virtual Batch prepare(Batch batch) const;
  /// Makes such a batch of records, each a map by the names of columns: {"color": "red", "weight": 3.5}. Default: throws
  /// MisuseError.
  virtual Batch prepare_records(const std::vector<Value>& records) const;
  /// What prepare() does, for messages and checkpoints: "standardize: each feature has mean 0 and deviation 1". Empty: nothing.
  virtual std::vector<std::string> preparations() const { return {}; }

 private:
  Value hparams_;
};

}  // namespace levin
