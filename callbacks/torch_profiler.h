#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "levin/core/options/options.h"
#include "levin/core/profiler.h"

namespace levin {

/// torch.profiler.schedule: of batches, `wait` are passed over, `warmup` are recorded and thrown away, `active` are kept.
struct TorchProfilerOptions {
  std::optional<std::filesystem::path> dirpath = std::nullopt;  ///< unset: the run's folder (Trainer::log_dir())
  std::string filename = "profile";                             ///< of `{stage}-{filename}-{rank}.pt.trace.json`
  std::int64_t wait = 1;
  std::int64_t warmup = 1;
  std::int64_t active = 3;
  std::int64_t repeat = 1;  ///< how often; 0: as long as there are batches. A second file ends in `-1.pt.trace.json`
  bool record_shapes = false;
  bool profile_memory = false;

  static void declare(OptionList<TorchProfilerOptions>& options);
};

/// Records some batches with LibTorch's own profiler (Kineto): every operator, and the actions of a run around them. Each rank
/// writes a file of its own, which chrome://tracing and https://ui.perfetto.dev show.
class TorchProfiler final : public Profiler {
 public:
  using Options = TorchProfilerOptions;

  explicit TorchProfiler(TorchProfilerOptions options = {});
  ~TorchProfiler() override;
  Value settings() const override { return write_options(options_); }

  void begin(Trainer& trainer, Stage stage) override;
  void start(std::string_view action) override;
  void stop(std::string_view action) override;
  void batch_done() override;
  void end(Trainer& trainer) override;
  void end_failed(Trainer& trainer) override;

 private:
  struct Recording;

  /// What the next batch is for.
  void enter_batch();
  void save();

  TorchProfilerOptions options_;
  Trainer* trainer_ = nullptr;
  Stage stage_ = Stage::kTrain;
  std::int64_t batches_ = 0;  ///< done
  std::int64_t files_ = 0;    ///< written
  std::unique_ptr<Recording> recording_;
};

}  // namespace levin
