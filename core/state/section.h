#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/loop_position.h"

namespace levin {

struct TrainerState;

/// The part of a checkpoint for one rank: tensors by their names in the file, and a map of values.
using RankState = Checkpoint;

/// When an entry point reads a part of a checkpoint before optimizers are made.
enum class LoadStep : std::uint8_t {
  kSetup,   ///< before setup() of the data module
  kModule,  ///< after setup()
};

/// When a resumed run restores what it has read. Hooks that it repeats run in between.
enum class Moment : std::uint8_t {
  kTrainStart,  ///< before on_train_start
  kEpochStart,  ///< before on_train_epoch_start of the epoch that the run was in
  kPlace,       ///< where the run was saved: all except kData and kAgreed
  kData,        ///< the same place, after the loader has read the prefetched batch
  kAgreed,      ///< before ranks agree on the parameters, if hooks had changed them since the last agreement
};

/// A part of a run's state: how it is remembered, saved, read and restored. The table in run_sections.h lists all sections of a
/// run; the one in state_scope.cpp lists those that are restored after a side computation.
///
/// A checkpoint holds a section as it was when the state of the loop (Place) began, since a resumed run repeats the hooks that
/// have run since. State that hooks cannot change between two places is read when it is saved.
class Section {
 public:
  /// `name`: in messages. `keys`: of the manifest, or prefixes of tensors' names, which end in '.': while a resumed run repeats
  /// hooks, a checkpoint holds under them what the run was given.
  explicit Section(std::string_view name, std::vector<std::string_view> keys = {}) : name_(name), keys_(std::move(keys)) {}
  virtual ~Section() = default;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  std::string_view name() const { return name_; }
  const std::vector<std::string_view>& keys() const { return keys_; }

  /// Remembers the section as it is now. The result restores it when destroyed. Null: no side computation changes it.
  virtual std::shared_ptr<void> hold(TrainerState&) { return nullptr; }

  /// A place begins: remembers the state that hooks may change until the next one. Cheap, as every step calls it.
  virtual void begin(TrainerState&, Place) {}

  /// True when the section is part of a checkpoint that holds weights only.
  virtual bool is_with_weights() const { return false; }
  /// Adds the state that all ranks share. Called: on all ranks; rank 0 writes it.
  virtual void save(TrainerState&, Checkpoint&) {}
  /// Adds the state of this rank.
  virtual void save_own(TrainerState&, RankState&) {}

  /// Reads the state that all ranks share, when optimizers are made. Throws ConfigError if it does not fit this run.
  virtual void load(TrainerState&, const Checkpoint&) {}
  /// Reads what an entry point needs before that.
  virtual void load_early(TrainerState&, const Checkpoint&, LoadStep) {}
  /// Reads the state of rank `rank` of the saved run, after load(). Called once for each rank whose state this one takes over:
  /// with fewer ranks, one takes over the state of several.
  virtual void load_own(TrainerState&, const Checkpoint&, int /*rank*/, const Value& /*values*/) {}
  /// Restores the loaded state.
  virtual void restore(TrainerState&, Moment) {}
  /// Drops the loaded state.
  virtual void forget() {}

 private:
  std::string_view name_;
  std::vector<std::string_view> keys_;
};

/// An object that calls `put_back` when destroyed: for Section::hold().
template <class PutBack>
std::shared_ptr<void> held(PutBack put_back) {
  struct Held {
    explicit Held(PutBack function) : put_back(std::move(function)) {}
    ~Held() { put_back(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    PutBack put_back;
  };
  return std::make_shared<Held>(std::move(put_back));
}

}  // namespace levin
