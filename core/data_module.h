#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/base/shared.h"
#include "levin/core/batch_loader.h"
#include "levin/core/config/value.h"

namespace levin {

/// Where a loader is asked for: `return levin::DataLoader(…);`, or a shared_ptr.
using LoaderPtr = Shared<BatchLoader>;

/// Evaluation may use several loaders, one after another: `{first, second}`; one may stand alone.
class LEVIN_API LoaderList : public std::vector<LoaderPtr> {
 public:
  using std::vector<LoaderPtr>::vector;
  LoaderList() = default;
  template <class Loader>
  requires(std::convertible_to<Loader, LoaderPtr> && !std::is_null_pointer_v<std::remove_cvref_t<Loader>>)
      LoaderList(Loader&& loader) {
    emplace_back(std::forward<Loader>(loader));
  }
  LoaderList(std::vector<LoaderPtr> loaders) : std::vector<LoaderPtr>(std::move(loaders)) {}
  LoaderList(const std::vector<std::shared_ptr<BatchLoader>>& loaders)
      : std::vector<LoaderPtr>(loaders.begin(), loaders.end()) {}
};

/// What a data module knows of its samples once setup() has run, for modules that fit themselves to any data.
struct LEVIN_API DataFacts {
  std::vector<std::int64_t> features = {};   ///< shape of a sample of batch["features"]; empty: not known
  std::optional<std::int64_t> classes = {};  ///< batch["label"] goes from 0 to below this
  double label_mean = 0.0;                   ///< of the training data, where batch["label"] are measures
  double label_deviation = 1.0;
};

/// Where the data of a run comes from. Override the loaders you have; the others are never asked for.
class LEVIN_API DataModule {
 public:
  virtual ~DataModule() = default;
  /// Called: on one process of each host, before setup(), while the others wait. For downloads; set no state here.
  virtual void prepare_data() {}
  /// Called: on every rank, once an entry point.
  virtual void setup(Stage) {}
  virtual void teardown(Stage) {}
  virtual LoaderPtr train_dataloader() { return nullptr; }
  virtual LoaderList val_dataloaders() { return {}; }
  virtual LoaderList test_dataloaders() { return {}; }
  virtual LoaderList predict_dataloaders() { return {}; }
  /// The same on all ranks. Trainer::data_module() leads modules to it, from their setup() on.
  virtual DataFacts facts() const { return {}; }
  /// What the run's hparams.yaml says of it.
  const Value& hparams() const { return hparams_; }
  void set_hparams(Value hparams) { hparams_ = std::move(hparams); }
  /// Saved in checkpoints. load_state_dict() is called behind setup(), and before the module's setup() and configure_model(),
  /// so that facts() are those of the data that the weights were trained on.
  virtual Value state_dict() const { return {}; }
  virtual void load_state_dict(const Value&) {}
  virtual void on_exception(const std::exception&) {}

 private:
  Value hparams_;
};

}  // namespace levin
