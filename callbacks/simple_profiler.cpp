#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/callbacks/profile_file.h"
#include "levin/callbacks/rank_waits.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/base/amounts.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/profiler.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

/// Of each kind: what all ranks exchange at the end, 16 bytes each.
constexpr std::size_t kMostExchanges = 20'000;
constexpr std::size_t kShownRanks = 3;
/// On the console: there are dozens of hooks that take next to nothing.
constexpr std::size_t kShownActions = 15;

std::string bytes_of(const std::vector<ExchangeSpan>& exchanges) {
  static_assert(std::is_trivially_copyable_v<ExchangeSpan>);
  return {reinterpret_cast<const char*>(exchanges.data()), exchanges.size() * sizeof(ExchangeSpan)};
}

std::vector<ExchangeSpan> spans_of(const std::string& bytes) {
  std::vector<ExchangeSpan> exchanges(bytes.size() / sizeof(ExchangeSpan));
  if (!exchanges.empty()) std::memcpy(exchanges.data(), bytes.data(), bytes.size());
  return exchanges;
}

/// "rank 3 1.20 s, rank 1 40.00 ms", those that were waited for longest.
std::string waited_for(const std::vector<double>& waits) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    if (waits[rank] > 0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end(), [&](std::size_t left, std::size_t right) { return waits[left] > waits[right]; });
  ranks.resize(std::min(ranks.size(), kShownRanks));
  return join(ranks, ", ", [&](std::size_t rank) { return format("rank {} {}", rank, seconds_text(waits[rank])); });
}

void add_rows(TextTable& table, const char* name, const std::vector<std::vector<ExchangeSpan>>& by_rank) {
  const auto waits = waits_of_ranks(by_rank);
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    double total = 0;
    for (const double seconds : waits[rank]) total += seconds;
    table.rows.push_back(
        {format("{}", rank), name, format("{}", by_rank[rank].size()), seconds_text(total), waited_for(waits[rank])});
  }
}

}  // namespace

struct SimpleProfilerOptions {
  std::optional<std::filesystem::path> dirpath = std::nullopt;  ///< unset: the run's folder (Trainer::log_dir())
  std::string filename = "profile";                             ///< of `{stage}-{filename}-{rank}.txt`

  static void declare(OptionList<SimpleProfilerOptions>& options) {
    using O = SimpleProfilerOptions;
    options.add(&O::dirpath, "Folder of the files; null: the run's");
    options.add(&O::filename, "Of the file of each rank, {stage}-{filename}-{rank}.txt");
  }
};

/// Counts actions and adds up their times. At the end of an entry point each rank writes a table to its own file, and
/// rank 0 shows its table: calls, total, mean, and share of the whole time, for each action; times of an action include those
/// of actions within it. With several ranks a second table follows: how long each rank waited in exchanges and in
/// reductions of gradients, and for which ranks.
class SimpleProfiler final : public WithOptions<Profiler, SimpleProfilerOptions> {
 public:
  explicit SimpleProfiler(Options options) : WithOptions("SimpleProfiler", std::move(options)) {}

  void begin(Trainer&, Stage stage) override {
    stage_ = stage;
    totals_.clear();
    running_.clear();
    for (auto& exchanges : exchanges_) exchanges.clear();
    begun_ = steady_seconds();
    ended_ = 0;
  }

  void start(std::string_view action) override {
    auto total = totals_.find(action);
    if (total == totals_.end()) total = totals_.emplace(std::string(action), Total()).first;
    running_.push_back({&total->second, steady_seconds()});
  }

  void stop(std::string_view) override {
    if (running_.empty()) return;  // it began before the entry point
    const Running& running = running_.back();
    ++running.total->calls;
    running.total->seconds += steady_seconds() - running.started;
    running_.pop_back();
  }

  void waited(WaitReason wait, double arrived, double left) override {
    auto& exchanges = exchanges_[static_cast<std::size_t>(wait)];
    if (exchanges.size() < kMostExchanges) exchanges.push_back({arrived, left});
  }

  void end(Trainer& trainer) override {
    ended_ = steady_seconds();
    // Every rank reaches this because all have the same profiler.
    const std::string waited = waits(trainer);
    const std::string file = write(trainer, table() + waited);
    rank_zero_info("Profile of rank 0, the ", kShownActions, " longest actions (all: ", file, "):\n", table(kShownActions),
                   waited);
  }

  void end_failed(Trainer& trainer) override {
    ended_ = steady_seconds();
    write(trainer, table());
  }

 private:
  /// What one action took so far.
  struct Total {
    std::int64_t calls = 0;
    double seconds = 0;
  };
  struct Running {
    Total* total;
    double started;
  };

  /// The table of actions, the longest first: of all, or of `most`.
  std::string table(std::optional<std::size_t> most = std::nullopt) const {
    const double all = (ended_ > 0 ? ended_ : steady_seconds()) - begun_;
    std::vector<std::pair<std::string, Total>> rows(totals_.begin(), totals_.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& left, const auto& right) { return left.second.seconds > right.second.seconds; });
    TextTable table{.header = {"action", "calls", "total", "mean", "share"},
                    .rows = {{"all", "", seconds_text(all), "", "100.0 %"}},
                    .align = {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight}};
    rows.resize(std::min(rows.size(), most.value_or(rows.size())));
    for (const auto& [action, total] : rows) {
      table.rows.push_back({action, format("{}", total.calls), seconds_text(total.seconds),
                            seconds_text(total.calls > 0 ? total.seconds / static_cast<double>(total.calls) : 0.0),
                            format("{:.1f} %", all > 0 ? 100 * total.seconds / all : 0.0)});
    }
    return table.str();
  }

  std::string waits(Trainer& trainer) const {
    if (trainer.world_size() == 1) return {};
    TextTable table{.header = {"rank", "waited in", "times", "in all", "for"},
                    .rows = {},
                    .align = {Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft}};
    constexpr std::array kNames = {"exchanges", "gradients"};
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
      const auto texts = RankExchange(trainer.strategy().control_group())
                             .gather_text(bytes_of(exchanges_[kind]),
                                          {"exchanging what a profiler has measured", "all have the same profiler"});
      std::vector<std::vector<ExchangeSpan>> by_rank;
      for (const std::string& text : texts) by_rank.push_back(spans_of(text));
      add_rows(table, kNames[kind], by_rank);
    }
    return format("\n\nWaits for other ranks, of the first {} of each kind:\n{}", kMostExchanges, table.str());
  }

  /// Gives the file that it has written to.
  std::string write(const Trainer& trainer, const std::string& text) const {
    const std::filesystem::path file = profile_file(trainer, stage_, options_.dirpath, options_.filename, ".txt");
    AtomicFile output(file);
    output.write(text + "\n");
    output.commit(AtomicFile::Disk::kLeaveToKernel);
    return file.string();
  }

  Stage stage_ = Stage::kTrain;
  double begun_ = 0;
  double ended_ = 0;  ///< 0 while it runs
  std::map<std::string, Total, std::less<>> totals_;
  std::vector<Running> running_;
  std::array<std::vector<ExchangeSpan>, 2> exchanges_;  ///< by WaitReason
};

LEVIN_REGISTER_(Profiler, SimpleProfiler, "simple",
                "Add up the times of hooks and actions, and what ranks wait for one another");
LEVIN_REGISTER_PROFILER(SimpleProfiler, "Another name of simple");

}  // namespace levin
