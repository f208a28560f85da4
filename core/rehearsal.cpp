#include "levin/core/rehearsal.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/epoch_plan.h"
#include "levin/core/engine/resume/checkpoint_state.h"
#include "levin/core/engine/run/entry_point.h"
#include "levin/core/engine/state/state_scope.h"
#include "levin/core/formats/lightning_checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {
namespace {

TrainerOptions options_of_trial(TrainerOptions options, const Trial& trial) {
  options.max_steps = trial.steps;
  options.max_epochs = -1;
  options.min_epochs = options.min_steps = std::nullopt;
  options.max_time = std::nullopt;
  options.logger = false;
  options.callbacks.clear();
  if (trial.observer) options.callbacks = {trial.observer};
  options.limit_val_batches = 0;
  options.num_sanity_val_steps = options.log_every_n_steps = 0;
  options.enable_checkpointing = options.enable_progress_bar = options.enable_model_summary = false;
  options.profiler = {};
  options.enable_autolog_hparams = false;
  options.log_level = std::max(options.log_level, LogLevel::kWarning);
  return options;
}

}  // namespace

RehearsingCallback::~RehearsingCallback() = default;

void Rehearsal::run(const Trial& trial) {
  Module& module = run_.module();
  const StateScope scope(run_, SideComputation::kTrial);
  ModuleAttachment::detach(run_);
  const auto go_on = c10::make_scope_exit([&] {
    for (const at::Tensor& parameter : module.parameters()) parameter.mutable_grad().reset();
    run_.metrics->clear();
    ModuleAttachment::attach(module, run_);
    configure_console(run_.setup);
  });
  TrainerOptions options = options_of_trial(run_.options(), trial);
  options.strategy = run_.setup.strategy;
  Trainer trainer(options);
  TrainerState& inner = TrainerState::of(trainer);
  inner.entry.is_trial = true;
  inner.optimizer_override = run_.optimizer_override;
  inner.setup.data_seed = run_.setup.data_seed;
  inner.setup.learning_rate = run_.setup.learning_rate;
  inner.setup.batch_size = trial.batch_size ? trial.batch_size : run_.setup.batch_size;
  DataSource source = source_;
  source.forget_ahead();
  EntryPoint entry(inner, module, std::move(source), Stage::kTrain, {});
  entry.run_trial([&] { FitLoop(inner, entry.precision(), entry.source()).run({}); });
}

const BatchLoader& Rehearsal::loader() { return source_.train_ahead(run_.module(), run_.setup, run_.hooks); }

void Rehearsal::set_learning_rate(double lr) { run_.setup.learning_rate = lr; }
void Rehearsal::set_batch_size(std::int64_t samples) { run_.setup.batch_size = samples; }

void EntryPoint::rehearse() {
  for (const auto& callback : run_.parts.callbacks) {
    auto* const rehearsing = dynamic_cast<RehearsingCallback*>(callback.get());
    if (rehearsing == nullptr || run_.options().fast_dev_run) continue;
    const auto scope = run_.hooks.enter(Hook::kOnFitStart);
    Rehearsal rehearsal(run_, source_);
    rehearsing->rehearse(run_.trainer, rehearsal);
    source_.forget_ahead();
  }
}

void EntryPoint::run_trial(const std::function<void()>& loop) {
  run_.parts.callbacks = run_.setup.callbacks;
  run_.data_ahead = &source_;
  make_precision();
  const Checkpoint before = module_state(run_);
  const auto put_back = [&] {
    run_.strategy().teardown();
    restore_data(run_, before);
    restore_module(run_, *precision_, before);
  };
  try {
    set_up_module();
    configure_optimizers();
    run_.parts.schedulers.clear();
    begin_place(run_, Place::kTrainStart, MetricMaps());
    loop();
    throw_if_signalled("during ");
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

// Not without a name: FitPreview::State, which the header declares, has members of these types.
namespace detail {

using torch::autograd::impl::set_grad_accumulator;
using torch::autograd::impl::try_get_grad_accumulator;
using Accumulator = decltype(try_get_grad_accumulator(std::declval<const at::Tensor&>()));

/// LibTorch takes a weak pointer, of another class in each version.
template <class Weak>
void put_accumulator(void (*set)(const at::Tensor&, Weak), const at::Tensor& parameter, const Accumulator& accumulator) {
  set(parameter, Weak(accumulator));
}

/// Parameters and buffers hold copies while it lives. The nodes that accumulate their gradients are others as well, since
/// those of before reduce them over ranks.
class CopiedTensors {
 public:
  CopiedTensors(const Module& module, bool in_64_bits) {
    for (const auto& [name, parameter] : distinct_parameters(module)) copy(parameter, in_64_bits, /*is_buffer=*/false);
    for (const at::Tensor& buffer : module.buffers()) copy(buffer, in_64_bits, /*is_buffer=*/true);
  }
  ~CopiedTensors() {
    // In reverse, as a buffer may be registered twice.
    for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
      kept->tensor.mutable_grad() = at::Tensor();
      kept->tensor.set_data(kept->own);
      kept->tensor.mutable_grad() = kept->gradient;
      if (kept->tensor.requires_grad()) put_accumulator(&set_grad_accumulator, kept->tensor, kept->accumulator);
    }
  }
  CopiedTensors(const CopiedTensors&) = delete;
  CopiedTensors& operator=(const CopiedTensors&) = delete;

  void begin_step() const {
    for (const Kept& kept : kept_) {
      if (kept.buffer.defined()) kept.tensor.set_data(kept.buffer.clone());
    }
  }

 private:
  struct Kept {
    at::Tensor tensor;
    at::Tensor own;
    at::Tensor gradient;
    at::Tensor buffer;  ///< what a buffer begins each step with
    Accumulator accumulator;
  };

  void copy(const at::Tensor& tensor, bool in_64_bits, bool is_buffer) {
    if (!tensor.defined()) return;
    const at::Tensor own = tensor.tensor_data();
    const at::Tensor start = in_64_bits && tensor.is_floating_point() ? own.to(at::kDouble) : own.clone();
    kept_.push_back({tensor, own, tensor.grad(), is_buffer ? start.clone() : at::Tensor(), {}});
    tensor.mutable_grad() = at::Tensor();
    if (tensor.requires_grad()) {
      kept_.back().accumulator = try_get_grad_accumulator(tensor);
      put_accumulator(&set_grad_accumulator, tensor, {});
    }
    tensor.set_data(start);
  }

  std::vector<Kept> kept_;
};

}  // namespace detail

struct FitPreview::State {
  State(TrainerState& trainer_state, bool in_64_bits)
      : run(trainer_state),
        precision(run.options().precision, run.strategy().accelerator(), run.strategy().device(), run.options().channels_last),
        tensors(run.module(), in_64_bits) {
    ask_for_loaders();
    if (run.module().automatic_optimization()) read_first_batch(in_64_bits);
    const Meeting meeting("the first batch of a check", "all ranks have the same checks");
    const auto batches = run.rank_exchange().gather_values(static_cast<int>(batch.has_value()), meeting);
    has_loss = std::ranges::count(batches, 0) == 0;
  }

  void ask_for_loaders() {
    // As where the length of training is asked for: not from within a loader's own making.
    DataSource* const source = std::exchange(run.data_ahead, nullptr);
    const auto back = c10::make_scope_exit([&] { run.data_ahead = source; });
    if (source == nullptr)
      throw MisuseError("A FitPreview is for on_fit_start: before it there is no data, then the run begins.");
    const TrainerOptions& options = run.options();
    const LoaderList& asked = source->for_preview(run.module(), run.setup, run.hooks);
    for (std::size_t index = 0; index < asked.size(); ++index) {
      const bool trains = index == 0;
      const auto& limit = trains ? options.limit_train_batches : options.limit_val_batches;
      const auto batches = limited_batches(asked[index]->size(), limit, trains ? "limit_train_batches" : "limit_val_batches");
      const std::string number = asked.size() > 2 ? format(" {}", index - 1) : "";
      loaders.push_back({trains ? "training loader" : "validation loader" + number, asked[index],
                         limit ? batch_cap(batches, limit) : std::nullopt});
    }
  }

  void read_first_batch(bool in_64_bits) {
    BatchLoader& loader = *loaders.front().loader;
    if (loaders.front().batches == 0 || loader.acts()) return;
    const auto scope = run.hooks.enter(Hook::kTrainDataloader);
    loader.start_epoch(run.progress.epoch);
    std::optional<Batch> given = loader.next();
    if (!given) return;
    run.progress.batch = {.in_work = true, .loaders = {{.loader = &loader, .batches = 1}}};
    MetricStore unread(run.strategy().control_group(), {});
    batch = transfer_batch(run.hooks, unread, run.strategy().device(), precision, std::move(*given), 0, 1);
    if (in_64_bits) batch = batch->to(at::kDouble);
    before_step = RandomSnapshot::take();
  }

  TrainerState& run;
  StateScope scope{run, SideComputation::kPreview};
  StageScope stage{run.progress, Stage::kTrain};
  ModuleAttachment::Silence silence{run};
  PrecisionPolicy precision;
  detail::CopiedTensors tensors;
  std::vector<FitLoader> loaders;
  std::optional<Batch> batch;
  std::optional<RandomSnapshot> before_step;
  bool has_loss = false;
};

FitPreview::FitPreview(Trainer& trainer, bool in_64_bits)
    : state_(std::make_unique<State>(TrainerState::of(trainer), in_64_bits)) {}
FitPreview::~FitPreview() = default;

const std::vector<FitLoader>& FitPreview::loaders() const { return state_->loaders; }
bool FitPreview::has_loss() const { return state_->has_loss; }
bool FitPreview::interrupted() const { return state_->run.stop.received_signal() != 0; }

at::Tensor FitPreview::loss() {
  const at::AutoGradMode with_gradients(true);
  state_->tensors.begin_step();
  state_->before_step->restore();
  Batch copy;
  for (const auto& [name, tensor] : state_->batch->items()) copy.set(name, tensor.clone());
  const PrecisionPolicy::Forward forward(state_->precision);
  const at::Tensor loss = state_->run.hooks.module(Hook::kTrainingStep, &Module::training_step, std::as_const(copy), 0).loss;
  if (loss.defined() && loss.numel() == 1) return loss;
  throw MisuseError("training_step gives no loss of one number for the first batch, which a check needs.");
}

void FitPreview::backward(const at::Tensor& loss) { state_->run.hooks.module(Hook::kBackward, &Module::backward, loss); }

void RunCheck::on_fit_start(Trainer& trainer, Module& module) {
  const TrainerState& run = TrainerState::of(trainer);
  findings_.clear();
  notes_.clear();
  if (run.resume.replaying) return;
  look(trainer, module);
  const std::string name = class_name();
  std::vector<std::vector<std::string>> by_rank;
  bool interrupted = false;
  for (const std::string& text : run.rank_exchange().gather_text(run.stop.received_signal() != 0 ? "\n" : join(findings_, "\n"),
                                                                 Meeting(name, "all ranks have this callback"))) {
    interrupted = interrupted || text == "\n";
    by_rank.push_back(text.empty() ? std::vector<std::string>() : split(text, "\n"));
  }
  findings_.clear();
  if (interrupted) return;  // what was read in part says nothing, and the run ends at its next boundary
  const auto has = [](const auto& list, const std::string& line) { return std::ranges::find(list, line) != list.end(); };
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const std::string& line : by_rank[rank]) {
      const bool on_all = std::ranges::all_of(by_rank, [&](const auto& lines) { return has(lines, line); });
      const std::string text = on_all ? line : format("rank {}: {}", rank, line);
      if (!has(findings_, text)) findings_.push_back(text);
    }
  }
  if (findings_.empty()) return rank_zero_info(name, ": ", notes_.empty() ? "ok" : "nothing found; " + join(notes_, "; "));
  std::vector<std::string> lines = findings_;
  lines.insert(lines.end(), notes_.begin(), notes_.end());
  const std::string text = format("{}: before training\n  {}", name, join(lines, "\n  "));
  if (finding_is_error()) throw MisuseError(text);
  rank_zero_warn(text);
}

namespace {

/// The states are of such schedulers, by what is called how in them.
bool are_of(const std::vector<SchedulerConfig>& schedulers, const Value& states) {
  const auto has_keys = [](const SchedulerConfig& config, const Value& saved) {
    const Value own = config.scheduler->state_dict();
    if (!own.is_map() || !saved.is_map()) return own.is_map() == saved.is_map();
    return own.size() == saved.size() &&
           std::ranges::all_of(own.as_map(), [&](const auto& entry) { return saved.contains(entry.first); });
  };
  return std::ranges::equal(schedulers, states.as_list(), has_keys);
}

}  // namespace

bool TrainingSnapshot::has(Parts parts) const {
  return !empty() && content_->manifest.contains("lr_schedulers") == (parts == Parts::kAll);
}

void TrainingSnapshot::take(const Trainer& trainer, Parts parts) {
  const at::NoGradGuard no_grad;
  const TrainerState& run = TrainerState::of(trainer);
  Checkpoint now;
  if (parts == Parts::kBuffers) {
    for (const auto& buffer : run.module().named_buffers()) {
      if (buffer.value().defined()) now.tensors[buffer.key()] = buffer.value();
    }
  } else {
    levin::save_module(run.module(), now);
    for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
      levin::save_optimizer(*run.parts.optimizers[index], index, now);
    }
    now.manifest["gradient_scaler"] = run.scaler.state();
    now.manifest["lr_schedulers"] = states_of(run.parts.schedulers);
  }
  std::vector<at::Tensor> places;
  std::vector<at::Tensor> values;
  const std::map<std::string, at::Tensor> none;
  const auto& earlier = content_ && is_own_ ? content_->tensors : none;
  for (auto& [name, tensor] : now.tensors) {
    const auto place = earlier.find(name);
    if (place != earlier.end() && place->second.sizes() == tensor.sizes() &&
        place->second.options().type_equal(tensor.options())) {
      places.push_back(place->second);
      values.push_back(std::exchange(tensor, place->second));
    } else {
      tensor = tensor.detach().clone();
    }
  }
  if (!places.empty()) at::_foreach_copy_(places, values);
  content_ = std::make_shared<const Checkpoint>(std::move(now));
  is_own_ = true;
}

bool TrainingSnapshot::take_newest_checkpoint(const Trainer& trainer) {
  TrainerState& run = TrainerState::of(trainer);
  std::string file;
  if (run.is_global_zero()) {
    run.files.wait();
    if (std::filesystem::is_regular_file(run.resume.good_file)) file = run.resume.good_file.string();
  }
  file = run.rank_exchange().broadcast_text(file, {"going back to a checkpoint", "all decide alike whether to"});
  if (file.empty()) return false;
  Checkpoint read = Checkpoint::load(file);
  take_trained_weights(read, /*in_place_of_averages=*/true);
  content_ = std::make_shared<const Checkpoint>(std::move(read));
  is_own_ = false;
  return true;
}

void TrainingSnapshot::restore(const Trainer& trainer) const {
  const at::NoGradGuard no_grad;
  TrainerState& run = TrainerState::of(trainer);
  const Value* const schedulers = content_->manifest.find("lr_schedulers");
  if (schedulers == nullptr) {
    for (const auto& buffer : run.module().named_buffers()) {
      const auto saved = content_->tensors.find(buffer.key());
      if (saved != content_->tensors.end()) at::Tensor(buffer.value()).copy_(saved->second);
    }
    return;
  }
  const bool has_same_schedulers = are_of(run.parts.schedulers, *schedulers);
  // Optimizers first: when one does not fit, nothing has changed.
  Strategy& strategy = run.strategy();
  for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
    torch::optim::Optimizer& optimizer = *run.parts.optimizers[index];
    const std::vector<double> rates = get_lrs(optimizer);
    is_own_ ? levin::load_optimizer(optimizer, index, *content_) : strategy.load_optimizer(optimizer, index, *content_);
    // They are those of the schedulers that there are.
    for (std::size_t group = 0; group < rates.size() && !has_same_schedulers; ++group) {
      set_lr(optimizer.param_groups()[group], rates[group]);
    }
  }
  is_own_ ? levin::load_module(run.module(), *content_) : strategy.load_module(run.module(), *content_);
  if (has_same_schedulers) {
    for (std::size_t index = 0; index < run.parts.schedulers.size(); ++index) {
      run.parts.schedulers[index].scheduler->load_state_dict(schedulers->as_list()[index]);
    }
  }
  const Value* const scaler = content_->manifest.find("gradient_scaler");
  if (scaler != nullptr && !scaler->is_null()) run.scaler.load_state(*scaler);
}

void TrainingSnapshot::save(const Trainer& trainer, const std::string& prefix, Checkpoint& checkpoint) const {
  if (empty() || trainer.strategy().divides_optimizers()) return;
  for (const auto& [name, tensor] : content_->tensors) checkpoint.tensors[prefix + name] = tensor;
  checkpoint.manifest[prefix] = content_->manifest;
}

void TrainingSnapshot::load(const std::string& prefix, const Checkpoint& checkpoint) {
  const Value* const manifest = checkpoint.manifest.find(prefix);
  if (manifest == nullptr) return;
  Checkpoint read;
  read.manifest = *manifest;
  for (auto entry = checkpoint.tensors.lower_bound(prefix);
       entry != checkpoint.tensors.end() && entry->first.starts_with(prefix); ++entry) {
    read.tensors[entry->first.substr(prefix.size())] = entry->second.clone();
  }
  content_ = std::make_shared<const Checkpoint>(std::move(read));
}

}  // namespace levin
