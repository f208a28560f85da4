#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "levin/callbacks/profile_file.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/profiler.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

namespace kineto = torch::autograd::profiler;

std::set<torch::profiler::impl::ActivityType> activities_of(const at::Device& device) {
  std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(torch::profiler::impl::ActivityType::CUDA);
  return activities;
}

}  // namespace

/// torch.profiler.schedule: of batches, `wait` are skipped, `warmup` are recorded and discarded, `active` are written.
struct TorchProfilerOptions {
  std::optional<std::filesystem::path> dirpath = std::nullopt;  ///< unset: the run's folder (Trainer::log_dir())
  std::string filename = "profile";                             ///< of `{stage}-{filename}-{rank}.pt.trace.json`
  std::int64_t wait = 1;
  std::int64_t warmup = 1;
  std::int64_t active = 3;
  std::int64_t repeat = 1;  ///< how often; 0: as long as there are batches. A second file ends in `-1.pt.trace.json`
  bool record_shapes = false;
  bool profile_memory = false;

  static void declare(OptionList<TorchProfilerOptions>& options) {
    using O = TorchProfilerOptions;
    options.add(&O::dirpath, "Folder of the files; null: the run's");
    options.add(&O::filename, "Of the file of each rank, {stage}-{filename}-{rank}.pt.trace.json");
    options.add(&O::wait, "Batches that are skipped").min(0);
    options.add(&O::warmup, "Batches that are recorded and discarded").min(0);
    options.add(&O::active, "Batches that are written").min(1);
    options.add(&O::repeat, "How many times; 0: until the last batch").min(0).instead("0 repeats as long as there are batches");
    options.add(&O::record_shapes, "Record the shapes of operators' inputs");
    options.add(&O::profile_memory, "Record what is allocated and freed");
  }
};

/// LibTorch's profiler, which a process has once, from its preparation on.
struct TorchRecording {
  TorchRecording(const TorchProfilerOptions& options, const at::Device& device)
      : config(torch::profiler::impl::ProfilerState::KINETO, options.record_shapes, options.profile_memory),
        activities(activities_of(device)) {
    kineto::prepareProfiler(config, activities);
  }
  ~TorchRecording() {
    actions.clear();
    if (!is_active) return;
    try {
      kineto::disableProfiler();
    } catch (const std::exception&) {
      // Its recording is not needed.
    }
  }
  TorchRecording(const TorchRecording&) = delete;
  TorchRecording& operator=(const TorchRecording&) = delete;

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

/// Records some batches with LibTorch's own profiler (Kineto): every operator, and the actions of a run around them. Each rank
/// writes its own file, which chrome://tracing and https://ui.perfetto.dev show.
class TorchProfiler final : public WithOptions<Profiler, TorchProfilerOptions> {
 public:
  explicit TorchProfiler(Options options) : WithOptions("TorchProfiler", std::move(options)) {}

  void begin(Trainer& trainer, Stage stage) override {
    trainer_ = &trainer;
    stage_ = stage;
    batches_ = files_ = 0;
    recording_.reset();
    enter_batch();
  }

  void start(std::string_view action) override {
    if (!recording_ || !recording_->is_active) return;
    auto record = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
    if (record->isActive()) record->before(std::string(action));
    recording_->actions.push_back(std::move(record));
  }

  void stop(std::string_view) override {
    // Those that began before the recording are not in it.
    if (recording_ && !recording_->actions.empty()) recording_->actions.pop_back();
  }

  void batch_done() override {
    if (trainer_->stage() != stage_) return;  // the batch of a validation within fit
    ++batches_;
    enter_batch();
  }

  void end(Trainer&) override {
    if (recording_) save();
    if (files_ > 0) return;
    rank_zero_warn(format("TorchProfiler recorded nothing: it begins after {} batches (wait, warmup), and there were {}.",
                          options_.wait + options_.warmup, batches_));
  }

  void end_failed(Trainer&) override {
    if (recording_) save();
  }

 private:
  /// What the next batch is for.
  void enter_batch() {
    const std::int64_t cycle = options_.wait + options_.warmup + options_.active;
    const std::int64_t place = batches_ % cycle;
    if (place == 0 && batches_ > 0 && recording_) save();
    if (options_.repeat > 0 && batches_ / cycle >= options_.repeat) return;
    if (place < options_.wait) return;
    if (!recording_) recording_ = std::make_unique<TorchRecording>(options_, trainer_->device());
    if (place >= options_.wait + options_.warmup && !recording_->is_active) recording_->enable();
  }

  void save() {
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

  Trainer* trainer_ = nullptr;
  Stage stage_ = Stage::kTrain;
  std::int64_t batches_ = 0;  ///< done
  std::int64_t files_ = 0;    ///< written
  std::unique_ptr<TorchRecording> recording_;
};

LEVIN_REGISTER_(Profiler, TorchProfiler, "torch", "Trace some batches with LibTorch's profiler, for Chrome and Perfetto");
LEVIN_REGISTER_(Profiler, TorchProfiler, "PyTorchProfiler", "Another name of torch");

}  // namespace levin
