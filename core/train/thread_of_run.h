#pragma once

#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// While it lives, this thread runs the hooks of a run: messages say where it is, modules that hooks add are found, and exit()
/// waits for it. Scopes of one thread nest.
class ThreadOfRun {
 public:
  explicit ThreadOfRun(TrainerState& run) : place_([&run] { return run.tracker.whereabouts(); }), running_(run) {}

 private:
  ThreadExitGuard exit_guard_;
  PlaceOfThread place_;
  ModuleAttachment::Scope running_;
};

}  // namespace levin
