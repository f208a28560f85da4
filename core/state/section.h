#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/loop_position.h"

namespace levin {

struct TrainerState;

/// What a checkpoint has of one rank: tensors by their names in the file, and a map of values.
using RankState = Checkpoint;

/// When a resumed run reads a checkpoint.
enum class LoadStep : std::uint8_t {
  kSetup,       ///< before setup() of the data module
  kModule,      ///< before optimizers are made
  kOptimizers,  ///< after on_fit_start
};

/// When a resumed run puts back what it has read. Hooks that it repeats run in between.
enum class Moment : std::uint8_t {
  kTrainStart,  ///< before on_train_start
  kEpochStart,  ///< before on_train_epoch_start of the epoch that the run was in
  kPlace,       ///< where the run was saved: all but what follows
  kData,        ///< the same place, when the loader has read the batch that lay ready
  kAgreed,      ///< before ranks agree on the parameters, where hooks had changed them since they had agreed last
};

/// A part of a run's state: how it is remembered, saved, read and put back. All sections of a run are in the table in
/// run_sections.h; what they put back after a side computation is in the table in state_scope.cpp.
///
/// A checkpoint holds a section as it was when the state of the loop (Place) began, since a resumed run repeats the hooks that
/// have run since. What hooks cannot change between two places is read when it is saved.
class Section {
 public:
  Section() = default;
  virtual ~Section() = default;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  /// For people.
  virtual std::string_view name() const = 0;

  /// Takes the section as it is now. What this gives puts it back when it goes. Null: a side computation leaves it alone.
  virtual std::shared_ptr<void> hold(TrainerState&) { return nullptr; }

  /// A place begins: remembers what hooks may change until the next one. Cheap, as it is called in each step.
  virtual void begin(TrainerState&, Place) {}

  /// The section is part of a checkpoint that holds weights only.
  virtual bool is_with_weights() const { return false; }
  /// Adds what all ranks have alike. Called: on all ranks; rank 0 writes it.
  virtual void save(TrainerState&, Checkpoint&) {}
  /// Adds what this rank has for itself.
  virtual void save_own(TrainerState&, RankState&) {}
  /// Keys of the manifest, or prefixes of tensors' names that end in '.': while a resumed run repeats hooks, a checkpoint holds
  /// what the run was given.
  virtual std::span<const std::string_view> keys() const { return {}; }

  /// Reads what all ranks have alike. Throws ConfigError for what does not fit this run.
  virtual void load(TrainerState&, const Checkpoint&, LoadStep) {}
  /// Reads what rank `rank` of the saved run had, after load(). Called once for each rank whose state this one takes over: of
  /// fewer ranks, one takes over the state of several.
  virtual void load_own(TrainerState&, const Checkpoint&, int /*rank*/, const Value& /*values*/) {}
  /// Puts back what was read.
  virtual void restore(TrainerState&, Moment) {}
  /// Drops what was read.
  virtual void forget() {}
};

/// Something that calls `put_back` when it goes: for Section::hold().
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
