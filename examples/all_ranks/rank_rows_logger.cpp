#include <levin/levin.h>

#include <fstream>

namespace {

struct RankRowsLoggerOptions {
  std::filesystem::path file = "rank_rows.jsonl";

  static void declare(levin::OptionList<RankRowsLoggerOptions>& options) {
    options.add("file", &RankRowsLoggerOptions::file, "Where to write, below the Trainer's default_root_dir");
  }
};

/// Writes one line of JSON for each row of metrics, with the values of all ranks:
///
///     {"epoch":0,"step":9,"stage":"train","epoch_end":false,"values":{"train_loss":1.5},"ranks":[{"train_loss":1},…]}
///
/// Lines are appended. A value that is not finite, which JSON cannot hold, is null.
class RankRowsLogger : public levin::Logger {
 public:
  using Options = RankRowsLoggerOptions;

  explicit RankRowsLogger(RankRowsLoggerOptions options) : options_(std::move(options)) {}
  levin::Value settings() const override { return levin::write_options(options_); }

  // Called on rank 0 alone, as are log_all_ranks() and log_metrics().
  std::string open(const levin::RunInfo& run) override {
    path_ = run.default_root_dir / options_.file;
    std::filesystem::create_directories(path_.parent_path());
    file_.open(path_, std::ios::app);
    check();
    return path_.string();
  }

  bool wants_all_ranks() const override { return true; }
  void log_all_ranks(const levin::MetricRow& row, const std::vector<levin::MetricMap>& by_rank) override {
    file_ << levin::to_json(row, by_rank) << '\n';
  }

  void save() override {
    file_.flush();
    check();
  }
  void finalize(const std::string&) override { save(); }

 private:
  void check() const {
    if (file_.is_open() && !file_) throw levin::IoError("RankRowsLogger: cannot write " + path_.string());
  }

  RankRowsLoggerOptions options_;
  std::filesystem::path path_;
  std::ofstream file_;
};

LEVIN_REGISTER_LOGGER(RankRowsLogger, "Writes the values of all ranks as lines of JSON");

}  // namespace
