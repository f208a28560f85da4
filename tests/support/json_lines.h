#pragma once

#include <levin/levin.h>

#include <fstream>

namespace {

struct JsonLinesOptions {
  std::filesystem::path file = "metrics.jsonl";

  static void declare(levin::OptionList<JsonLinesOptions>& options) {
    options.add("file", &JsonLinesOptions::file, "Where to write, below the Trainer's default_root_dir");
  }
};

/// One line of JSON for each row. Appends lines to existing ones.
class JsonLines : public levin::Logger {
 public:
  using Options = JsonLinesOptions;
  explicit JsonLines(JsonLinesOptions options) : options_(levin::checked("JsonLines", std::move(options))) {}
  levin::Value settings() const override { return levin::write_options(options_); }

  std::string open(const levin::RunInfo& run) override {  // on rank 0
    path_ = run.default_root_dir / options_.file;
    std::filesystem::create_directories(path_.parent_path());
    file_.open(path_, std::ios::app);
    check();
    return path_.string();
  }
  void attach(const levin::RunInfo&, const std::string& token) override { path_ = token; }  // on every rank

  void log_metrics(const levin::MetricRow& row) override { file_ << levin::to_json(row) << '\n'; }
  void save() override {
    file_.flush();
    check();
  }
  void finalize(const std::string&) override { save(); }
  std::filesystem::path log_dir() const override { return path_.parent_path(); }

 private:
  void check() const {
    if (file_.is_open() && !file_) throw levin::IoError("JsonLines: cannot write " + path_.string());
  }

  JsonLinesOptions options_;
  std::filesystem::path path_;
  std::ofstream file_;
};

LEVIN_REGISTER_LOGGER(JsonLines, "Lines of JSON");

}  // namespace
