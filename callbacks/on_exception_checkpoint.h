#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <utility>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

struct LEVIN_API OnExceptionCheckpointOptions {
  std::filesystem::path dirpath;  ///< required
  std::string filename = "on_exception";

  static void declare(OptionList<OnExceptionCheckpointOptions>& options);
};

/// Saves the state of a run that ends with an error, as `dirpath/filename.ckpt`, replacing an older one. Rank 0 saves alone;
/// other ranks are not waited for. A fit that ends well removes the file.
class LEVIN_API OnExceptionCheckpoint final : public WithOptions<Callback, OnExceptionCheckpointOptions> {
 public:
  explicit OnExceptionCheckpoint(Options options) : WithOptions("OnExceptionCheckpoint", std::move(options)) {}

  std::filesystem::path ckpt_path() const { return options_.dirpath / (options_.filename + ".ckpt"); }

  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;
  void on_fit_end(Trainer& trainer, Module& module) override;
};

}  // namespace levin
