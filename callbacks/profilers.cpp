#include "levin/callbacks/profilers.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <system_error>
#include <type_traits>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/console/table.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/options/registry.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

/// Where a profiler writes what it has measured on this rank: `{folder}/{stage}-{filename}-{rank}{ending}`, fit being a stage.
/// `folder`: unset is the run's.
std::filesystem::path profile_file(const Trainer& trainer, Stage stage, const std::optional<std::filesystem::path>& folder,
                                   const std::string& filename, const std::string& ending) {
  const std::filesystem::path place = folder ? *folder : trainer.log_dir();
  return place / format("{}-{}-{}{}", stage == Stage::kTrain ? "fit" : stage_name(stage), filename, trainer.rank(), ending);
}

}  // namespace

namespace {

/// By how much a rank's clock is ahead of rank 0's.
double clock_ahead(const std::vector<MeetingSpan>& first, const std::vector<MeetingSpan>& own, std::size_t meetings) {
  std::vector<double> differences;
  for (std::size_t index = 0; index < meetings; ++index) differences.push_back(own[index].left - first[index].left);
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(meetings / 2);
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

}  // namespace

std::vector<std::vector<double>> waits_of_ranks(const std::vector<std::vector<MeetingSpan>>& by_rank) {
  const std::size_t ranks = by_rank.size();
  std::vector<std::vector<double>> waits(ranks, std::vector<double>(ranks, 0.0));
  std::size_t meetings = by_rank.front().size();
  for (const auto& own : by_rank) meetings = std::min(meetings, own.size());
  if (meetings == 0) return waits;
  std::vector<double> ahead;
  for (const auto& own : by_rank) ahead.push_back(clock_ahead(by_rank.front(), own, meetings));
  for (std::size_t index = 0; index < meetings; ++index) {
    const auto arrived = [&](std::size_t rank) { return by_rank[rank][index].arrived - ahead[rank]; };
    std::size_t last = 0;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (arrived(rank) > arrived(last)) last = rank;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) waits[rank][last] += arrived(last) - arrived(rank);
  }
  return waits;
}

namespace {

/// Of each kind: what all ranks exchange at the end, 16 bytes each.
constexpr std::size_t kMostMeetings = 20'000;
constexpr std::size_t kShownRanks = 3;
/// On the console: there are dozens of hooks that take next to nothing.
constexpr std::size_t kShownActions = 15;

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? format("{:.2f} ms", seconds * 1e3) : format("{:.2f} s", seconds);
}

std::string bytes_of(const std::vector<MeetingSpan>& meetings) {
  static_assert(std::is_trivially_copyable_v<MeetingSpan>);
  return {reinterpret_cast<const char*>(meetings.data()), meetings.size() * sizeof(MeetingSpan)};
}

std::vector<MeetingSpan> meetings_of(const std::string& bytes) {
  std::vector<MeetingSpan> meetings(bytes.size() / sizeof(MeetingSpan));
  if (!meetings.empty()) std::memcpy(meetings.data(), bytes.data(), bytes.size());
  return meetings;
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

void add_rows(TextTable& table, const char* name, const std::vector<std::vector<MeetingSpan>>& by_rank) {
  const auto waits = waits_of_ranks(by_rank);
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    double total = 0;
    for (const double seconds : waits[rank]) total += seconds;
    table.rows.push_back(
        {format("{}", rank), name, format("{}", by_rank[rank].size()), seconds_text(total), waited_for(waits[rank])});
  }
}

}  // namespace

LEVIN_REGISTER_(Profiler, SimpleProfiler, "simple",
                "Add up the times of hooks and actions, and what ranks wait for one another");
LEVIN_REGISTER_PROFILER(SimpleProfiler, "Another name of simple");

void SimpleProfilerOptions::declare(OptionList<SimpleProfilerOptions>& options) {
  using O = SimpleProfilerOptions;
  options.add("dirpath", &O::dirpath, "Folder of the files; null: the run's");
  options.add("filename", &O::filename, "Of the file of each rank, {stage}-{filename}-{rank}.txt");
}

SimpleProfiler::SimpleProfiler(SimpleProfilerOptions options) : options_(checked("SimpleProfiler", std::move(options))) {}

void SimpleProfiler::begin(Trainer&, Stage stage) {
  stage_ = stage;
  totals_.clear();
  running_.clear();
  for (auto& meetings : meetings_) meetings.clear();
  begun_ = steady_seconds();
  ended_ = 0;
}

void SimpleProfiler::start(std::string_view action) {
  auto total = totals_.find(action);
  if (total == totals_.end()) total = totals_.emplace(std::string(action), Total()).first;
  running_.push_back({&total->second, steady_seconds()});
}

void SimpleProfiler::stop(std::string_view) {
  if (running_.empty()) return;  // it began before the entry point
  const Running& running = running_.back();
  ++running.total->calls;
  running.total->seconds += steady_seconds() - running.started;
  running_.pop_back();
}

void SimpleProfiler::waited(WaitReason wait, double arrived, double left) {
  auto& meetings = meetings_[static_cast<std::size_t>(wait)];
  if (meetings.size() < kMostMeetings) meetings.push_back({arrived, left});
}

std::string SimpleProfiler::table(std::optional<std::size_t> most) const {
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

std::string SimpleProfiler::waits(Trainer& trainer) const {
  if (trainer.world_size() == 1) return {};
  TextTable table{.header = {"rank", "waited in", "times", "in all", "for"},
                  .rows = {},
                  .align = {Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft}};
  constexpr std::array kNames = {"meetings", "gradients"};
  for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
    const auto texts =
        RankExchange(trainer.strategy().control_group())
            .gather_text(bytes_of(meetings_[kind]), {"exchanging what a profiler has measured", "all have the same profiler"});
    std::vector<std::vector<MeetingSpan>> by_rank;
    for (const std::string& text : texts) by_rank.push_back(meetings_of(text));
    add_rows(table, kNames[kind], by_rank);
  }
  return format("\n\nWaits for other ranks, of the first {} of each kind:\n{}", kMostMeetings, table.str());
}

std::filesystem::path SimpleProfiler::file(const Trainer& trainer) const {
  return profile_file(trainer, stage_, options_.dirpath, options_.filename, ".txt");
}

void SimpleProfiler::write(Trainer& trainer, const std::string& text) const {
  AtomicFile output(file(trainer));
  output.write(text + "\n");
  output.commit(AtomicFile::Disk::kLeaveToKernel);
}

void SimpleProfiler::end(Trainer& trainer) {
  ended_ = steady_seconds();
  // Every rank reaches this because all have the same profiler.
  const std::string waited = waits(trainer);
  write(trainer, table() + waited);
  rank_zero_info("Profile of rank 0, the ", kShownActions, " longest actions (all: ", file(trainer).string(), "):\n",
                 table(kShownActions), waited);
}

void SimpleProfiler::end_failed(Trainer& trainer) {
  ended_ = steady_seconds();
  write(trainer, table());
}

namespace {

namespace kineto = torch::autograd::profiler;

std::set<torch::profiler::impl::ActivityType> activities_of(const at::Device& device) {
  std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(torch::profiler::impl::ActivityType::CUDA);
  return activities;
}

}  // namespace

/// LibTorch's profiler, which a process has once, from its preparation on.
struct TorchProfiler::Recording {
  Recording(const TorchProfilerOptions& options, const at::Device& device)
      : config(torch::profiler::impl::ProfilerState::KINETO, options.record_shapes, options.profile_memory),
        activities(activities_of(device)) {
    kineto::prepareProfiler(config, activities);
  }
  ~Recording() {
    actions.clear();
    if (!is_active) return;
    try {
      kineto::disableProfiler();
    } catch (const std::exception&) {
      // Nobody wants what it has recorded.
    }
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void enable() {
    kineto::enableProfiler(config, activities);
    is_active = true;
  }
  std::unique_ptr<kineto::ProfilerResult> disable() {
    is_active = false;
    return kineto::disableProfiler();
  }

  torch::profiler::impl::ProfilerConfig config;
  std::set<torch::profiler::impl::ActivityType> activities;
  bool is_active = false;
  std::vector<std::unique_ptr<at::RecordFunction>> actions;  ///< that have begun since it is active
};

LEVIN_REGISTER_(Profiler, TorchProfiler, "torch", "Trace some batches with LibTorch's profiler, for Chrome and Perfetto");
LEVIN_REGISTER_(Profiler, TorchProfiler, "PyTorchProfiler", "Another name of torch");

void TorchProfilerOptions::declare(OptionList<TorchProfilerOptions>& options) {
  using O = TorchProfilerOptions;
  options.add("dirpath", &O::dirpath, "Folder of the files; null: the run's");
  options.add("filename", &O::filename, "Of the file of each rank, {stage}-{filename}-{rank}.pt.trace.json");
  options.add("wait", &O::wait, "Batches that are passed over").min(0);
  options.add("warmup", &O::warmup, "Batches that are recorded and thrown away").min(0);
  options.add("active", &O::active, "Batches that are kept").min(1);
  options.add("repeat", &O::repeat, "How often; 0: as long as there are batches").min(0);
  options.add("record_shapes", &O::record_shapes, "Record the shapes of operators' inputs");
  options.add("profile_memory", &O::profile_memory, "Record what is allocated and freed");
}

TorchProfiler::TorchProfiler(TorchProfilerOptions options) : options_(checked("TorchProfiler", std::move(options))) {}

TorchProfiler::~TorchProfiler() = default;

void TorchProfiler::begin(Trainer& trainer, Stage stage) {
  trainer_ = &trainer;
  stage_ = stage;
  batches_ = files_ = 0;
  recording_.reset();
  enter_batch();
}

void TorchProfiler::start(std::string_view action) {
  if (!recording_ || !recording_->is_active) return;
  auto record = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (record->isActive()) record->before(std::string(action));
  recording_->actions.push_back(std::move(record));
}

void TorchProfiler::stop(std::string_view) {
  // Those that began before the recording are not in it.
  if (recording_ && !recording_->actions.empty()) recording_->actions.pop_back();
}

void TorchProfiler::batch_done() {
  if (trainer_->stage() != stage_) return;  // the batch of a validation within fit
  ++batches_;
  enter_batch();
}

void TorchProfiler::enter_batch() {
  const std::int64_t cycle = options_.wait + options_.warmup + options_.active;
  const std::int64_t place = batches_ % cycle;
  if (place == 0 && batches_ > 0 && recording_) save();
  if (options_.repeat > 0 && batches_ / cycle >= options_.repeat) return;
  if (place < options_.wait) return;
  if (!recording_) recording_ = std::make_unique<Recording>(options_, trainer_->device());
  if (place >= options_.wait + options_.warmup && !recording_->is_active) recording_->enable();
}

void TorchProfiler::save() {
  const auto recording = std::move(recording_);
  if (!recording->is_active) return;
  recording->actions.clear();
  const auto result = recording->disable();
  const std::string number = files_ == 0 ? "" : format("-{}", files_);
  const std::filesystem::path file =
      profile_file(*trainer_, stage_, options_.dirpath, options_.filename, number + ".pt.trace.json");
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  result->save(file.string());
  if (!std::filesystem::exists(file)) throw IoError(format("TorchProfiler: LibTorch could not write {}", file));
  ++files_;
  rank_zero_info("Trace of rank 0: ", file.string());
}

void TorchProfiler::end(Trainer&) {
  if (recording_) save();
  if (files_ > 0) return;
  rank_zero_warn(format("TorchProfiler recorded nothing: it begins after {} batches (wait, warmup), and there were {}.",
                        options_.wait + options_.warmup, batches_));
}

void TorchProfiler::end_failed(Trainer&) {
  if (recording_) save();
}

}  // namespace levin
