#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/options/options.h"
#include "levin/core/profiler.h"

namespace levin {

/// When a rank came to a meeting of all ranks and went on, in seconds of its host's clock.
struct MeetingSpan {
  double arrived = 0;
  double left = 0;
};

/// waits[r][s]: seconds that rank r waited for rank s, the last to come, in meetings of all ranks. `by_rank`: each rank's
/// meetings, in the same order; those that some rank lacks at the end do not count. Ranks go on together, so that hosts whose
/// clocks differ can be compared: by the median of the differences.
std::vector<std::vector<double>> waits_of_ranks(const std::vector<std::vector<MeetingSpan>>& by_rank);

struct SimpleProfilerOptions {
  std::optional<std::filesystem::path> dirpath = std::nullopt;  ///< unset: the run's folder (Trainer::log_dir())
  std::string filename = "profile";                             ///< of `{stage}-{filename}-{rank}.txt`

  static void declare(OptionList<SimpleProfilerOptions>& options);
};

/// Counts actions and adds up their times. At the end of an entry point each rank writes a table to a file of its own, and
/// rank 0 shows its table: calls, total, mean, and share of the whole time, for each action; times of an action include those
/// of actions within it. With several ranks a second table follows: how long each rank waited in meetings and in
/// reductions of gradients, and for which ranks.
class SimpleProfiler final : public Profiler {
 public:
  using Options = SimpleProfilerOptions;

  /// What one action took so far.
  struct Total {
    std::int64_t calls = 0;
    double seconds = 0;
  };

  explicit SimpleProfiler(SimpleProfilerOptions options = {});
  Value settings() const override { return write_options(options_); }

  void begin(Trainer& trainer, Stage stage) override;
  void start(std::string_view action) override;
  void stop(std::string_view action) override;
  void waited(WaitReason wait, double arrived, double left) override;
  void end(Trainer& trainer) override;
  void end_failed(Trainer& trainer) override;

  const std::map<std::string, Total, std::less<>>& totals() const { return totals_; }
  /// The table of actions, the longest first: of all, or of `most`.
  std::string table(std::optional<std::size_t> most = std::nullopt) const;

 private:
  struct Running {
    Total* total;
    double started;
  };

  std::string waits(Trainer& trainer) const;
  std::filesystem::path file(const Trainer& trainer) const;
  void write(Trainer& trainer, const std::string& text) const;

  SimpleProfilerOptions options_;
  Stage stage_ = Stage::kTrain;
  double begun_ = 0;
  double ended_ = 0;  ///< 0 while it runs
  std::map<std::string, Total, std::less<>> totals_;
  std::vector<Running> running_;
  std::array<std::vector<MeetingSpan>, 2> meetings_;  ///< by WaitReason
};

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
