#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/options/options.h"
#include "levin/core/profiler.h"

namespace levin {

struct MeetingSpan;

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
  ~SimpleProfiler() override;
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

}  // namespace levin
