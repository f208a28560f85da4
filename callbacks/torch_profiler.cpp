#include "levin/callbacks/torch_profiler.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <system_error>
#include <vector>

#include "levin/callbacks/profile_file.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
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
