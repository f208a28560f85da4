#include "support/resume_plans.h"

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>

#include "levin/callbacks/backbone_finetuning.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/learning_rate_monitor.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/model_pruning.h"
#include "levin/callbacks/spike_guard.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/checkpoint/background_files.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/seed.h"
#include "levin/core/session.h"
#include "levin/data/data_loader.h"
#include "levin/data/stream.h"
#include "levin/metrics/regression.h"
#include "levin/optim/composed_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "levin/optim/schedule_free.h"
#include "support/recording.h"
#include "support/resume_parts.h"
#include "support/resume_sources.h"
#include "support/test_device.h"

namespace levin::test {

namespace {

class Program final : public RecordingModule {
 public:
  Program(HookTrace& trace, const ResumePlan& plan, bool is_cut) : RecordingModule(trace), plan_(plan), is_cut_(is_cut) {
    set_automatic_optimization(!plan.manual);
    if (plan.tied) {
      register_module("again", layer_);
      register_parameter("twin", layer_->weight);
    }
    if (plan.averaging == "swa") norm_ = register_module("norm", torch::nn::BatchNorm1d(2));
    if (plan.odd_weights == "sparse") table_ = register_module("table", torch::nn::Embedding(embedding_options()));
    if (plan.odd_weights == "complex") phase_ = register_parameter("phase", torch::randn({2, 1}, torch::kComplexFloat));
    for (at::Tensor& parameter : late_->parameters()) parameter.requires_grad_(false);
  }

  LoaderList val_dataloaders() override { return validation ? validation() : LoaderList(); }
  std::function<LoaderList()> validation;

  /// Called in each hook, before anything is saved in it.
  void change_parameters(const std::string& entry) {
    if (!has_trainer() || trainer().sanity_checking()) return;
    const bool asks = trainer().rank() == plan_.ranks - 1 && entry == "M." + plan_.ask_in;
    if (asks && trainer().total_batch_idx() == plan_.ask_at) trainer().request(RunCommand::kValidate);
    const bool stops = is_cut_ && plan_.cut_by == "stop" && trainer().rank() == plan_.ranks - 1;
    if (stops && entry == "M.training_step" && trainer().total_batch_idx() == plan_.cut_at) trainer().stop("it is cut");
    for (const ParameterChange& change : plan_.changes) {
      if (entry == "M." + change.hook && is_due(change)) apply(change.kind);
    }
  }

  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    trace_.add("M.training_step");
    const at::Tensor target = torch::rand({1}, device()) + 0.1 * own_noise();
    at::Tensor prediction = layer_->forward(dropout_->forward(normalized(batch[0]))) + odd_part(batch[0]);
    if (!leaves_out()) prediction = prediction + late_->forward(batch[0]);
    at::Tensor loss = (prediction - target).pow(2).mean();
    log("loss", loss, {.on_epoch = true, .prog_bar = true});
    log("samples", batch.batch_size(), {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    errors_.update(prediction, target.expand_as(prediction));
    log("mse", errors_, {.on_epoch = true});
    kept_.update(prediction, target);
    log("kept", kept_, {.on_epoch = true});
    late_kept_.update(prediction, target);
    skip_if_due("training_step", batch_idx);
    if (plan_.bad_losses && trainer().total_batch_idx() % 5 == 2) loss = loss + std::numeric_limits<double>::infinity();
    if (!plan_.manual) return loss;
    // Gradients of two batches make a step, without regard to epochs.
    const bool steps = trainer().total_batch_idx() % 2 == 1;
    manual_backward(loss, /*synchronize=*/steps || !plan_.local);
    if (steps) {
      step_optimizer();
      optimizer().zero_grad();
    }
    return {};
  }
  void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
    skip_if_due("on_train_batch_start", batch_idx);
    trace_.add("M.on_train_batch_start");
  }
  void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    skip_if_due("on_train_batch_end", batch_idx);
    trace_.add("M.on_train_batch_end");
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.validation_step");
    const at::Tensor loss =
        (layer_->forward(normalized(batch[0])) - torch::rand({1}, device()) - 0.1 * own_noise()).pow(2).mean();
    log("val_loss", loss);
    val_kept_.update(layer_->forward(batch[0]), {});
    log("val_kept", val_kept_);
    log("val_step", loss, {.on_step = true});
  }
  void on_train_start() override {
    trace_.add("M.on_train_start");
    log("starts", torch::rand({1}).item<double>() + shared_noise(), {.reduce = Reduce::kSum});
  }
  void on_train_epoch_start() override {
    trace_.add("M.on_train_epoch_start");
    log("epoch_starts", torch::rand({1}).item<double>() + shared_noise(), {.reduce = Reduce::kSum});
  }
  void on_train_epoch_end() override {
    log("epoch_ends", torch::rand({1}).item<double>() + shared_noise(), {.reduce = Reduce::kSum});
    // A value logged here for the first time has been updated since the epoch began; compute() sees what all ranks have.
    log("late_kept", late_kept_);
    log("kept_of_all", kept_.compute().item());
    trace_.add("M.on_train_epoch_end");  // a hook that saves is done with that
  }
  void on_validation_end() override {
    (void)torch::rand({1});
    (void)shared_noise();
    trace_.add("M.on_validation_end");
  }
  /// Of this rank's own generator, where the plan draws from it.
  double own_noise() const {
    const bool draws = has_trainer() && trainer().total_batch_idx() >= plan_.own_from;
    return draws ? torch::rand({1}, rank_generator()).item<double>() : 0;
  }
  OptimizerSetups configure_optimizers() override {
    std::vector<at::Tensor> trained = layer_->parameters();
    if (plan_.tied) trained.push_back(layer_->weight);
    if (table_) trained.push_back(table_->weight);
    if (phase_.defined()) trained.push_back(phase_);
    std::shared_ptr<torch::optim::Optimizer> optimizer;
    if (plan_.averaging == "schedule_free") {
      optimizer = std::make_shared<AdamWScheduleFree>(trained, AdamWScheduleFreeOptions{.lr = 0.05, .warmup_steps = 3});
    } else if (plan_.odd_weights.empty()) {
      optimizer = std::make_shared<torch::optim::Adam>(trained, 0.05);
    } else {
      optimizer = std::make_shared<torch::optim::SGD>(trained, torch::optim::SGDOptions(0.05).momentum(0.5));
    }
    ReduceLrOnPlateauOptions options;
    options.patience = 0;
    auto plateau = std::make_shared<ReduceLrOnPlateau>(*optimizer, options);
    SchedulerConfig config;
    config.scheduler = plateau;
    config.interval = plan_.plateau_each_step ? levin::Interval::kStep : levin::Interval::kEpoch;
    config.monitor = plan_.validation_samples > 0 ? "val_loss" : "loss";
    config.strict = false;
    // Groups that hooks add follow it too.
    SchedulerConfig stepped;
    const auto step_lr = [&](double gamma) {
      return std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 2, .gamma = gamma});
    };
    stepped.scheduler = step_lr(0.9);
    if (plan_.sequential) {
      const std::vector<std::shared_ptr<LrScheduler>> schedules = {step_lr(0.8), step_lr(0.9)};
      stepped.scheduler = std::make_shared<SequentialLr>(*optimizer, schedules, std::vector<std::int64_t>{5});
    }
    stepped.interval = levin::Interval::kStep;
    return {optimizer, {config, stepped}};
  }

 private:
  /// The queued device has no sparse tensors.
  static torch::nn::EmbeddingOptions embedding_options() {
    return torch::nn::EmbeddingOptions(4, 1).sparse(test_accelerator() != "QueuedAccelerator");
  }
  /// A batch may have one row, and BatchNorm needs two.
  at::Tensor normalized(const at::Tensor& rows) {
    return norm_ ? norm_->forward(torch::stack({rows, 2 * rows}, 2)).mean(2) : rows;
  }
  /// The contribution of weights of another kind to a prediction.
  at::Tensor odd_part(const at::Tensor& rows) {
    if (table_) return table_->forward((rows.select(1, 0) * 5).floor().clamp(0, 3).to(torch::kLong));
    if (phase_.defined()) return torch::real(rows.to(torch::kComplexFloat).mm(phase_ * phase_.conj() + phase_));
    return torch::zeros({1}, device());
  }
  /// Ranks take turns in leaving a part out.
  bool leaves_out() const {
    return plan_.strategy == "find_unused_parameters" && (trainer().total_batch_idx() + trainer().rank()) % 3 == 1;
  }
  /// In hooks that every rank runs.
  double shared_noise() const {
    return trainer().total_batch_idx() < plan_.shared_until ? torch::rand({1}, shared_generator()).item<double>() : 0;
  }
  bool is_due(const ParameterChange& change) const {
    if (change.hook == "on_fit_start" || change.hook == "on_train_start") return true;
    if (change.hook == "on_train_epoch_start" || change.hook == "on_train_epoch_end") return current_epoch() == change.at;
    if (happens_for_each_validation_batch(change.hook) && trainer().batch_idx() != 0) return false;
    return trainer().total_batch_idx() == change.at;
  }
  void apply(ParameterChange::Kind kind) {
    if (kind == ParameterChange::Kind::kAddGroup) {
      for (at::Tensor& parameter : late_->parameters()) parameter.requires_grad_(true);
      optimizer().add_param_group({late_->parameters()});
    } else if (kind == ParameterChange::Kind::kSetRate) {
      set_lr(optimizer().param_groups().front(), 0.02);
    } else {
      layer_->bias.requires_grad_(kind == ParameterChange::Kind::kUnfreeze);
      dropout_->train(kind == ParameterChange::Kind::kUnfreeze);
    }
  }
  void skip_if_due(const std::string& hook, std::int64_t batch_idx) {
    // On several ranks the last one alone.
    const bool asks = trainer().rank() == plan_.ranks - 1 && hook == plan_.skip_in;
    if (asks && current_epoch() == plan_.skip_in_epoch && batch_idx == 1) trainer().skip_epoch();
  }

  ResumePlan plan_;
  bool is_cut_;
  torch::nn::Linear late_ = register_module("late", torch::nn::Linear(2, 1));  ///< until a hook gives it to the optimizer
  torch::nn::Embedding table_{nullptr};
  torch::nn::BatchNorm1d norm_{nullptr};
  at::Tensor phase_;
  torch::nn::Dropout dropout_ = register_module("dropout", torch::nn::Dropout(0.3));
  MeanSquaredError& errors_ = add_metric<MeanSquaredError>("errors");
  KeptValues& kept_ = add_metric<KeptValues>("kept");
  KeptValues& late_kept_ = add_metric<KeptValues>("late_kept");
  KeptValues& val_kept_ = add_metric<KeptValues>("val_kept");
};

/// The same as a callback that saves state: its hooks come last.
class LateCallback final : public Callback {
 public:
  LateCallback(HookTrace& trace, std::string name) : trace_(trace), name_(std::move(name)) {}
  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  std::string state_key() const override { return "LateCallback " + name_; }
  void on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t) override {
    trace_.add(name_ + ".on_train_batch_end");
  }
  void on_train_epoch_end(Trainer&, Module&) override { trace_.add(name_ + ".on_train_epoch_end"); }
  void on_validation_end(Trainer&, Module&) override { trace_.add(name_ + ".on_validation_end"); }

 private:
  HookTrace& trace_;
  std::string name_;
};

struct Outcome {
  std::vector<std::pair<std::string, at::Tensor>> weights;
  std::vector<RowLogger::Row> rows;
  std::vector<std::string> saved;
  Value facts;  ///< what else a resumed run must end with
};

template <class Numbers>
Value map_of(const Numbers& numbers) {
  Value map(Value::Map{});
  for (const auto& [name, number] : numbers) map[std::filesystem::path(name).filename().string()] = number;
  return map;
}

enum class Driver : std::uint8_t { kFit, kSession };

class Run {
 public:
  Run(const ResumePlan& plan, std::filesystem::path folder, bool is_cut = false)
      : plan_(plan), folder_(std::move(folder)), is_cut_(is_cut) {}
  Run(const ResumePlan& plan, std::filesystem::path folder, Driver driver)
      : plan_(plan), folder_(std::move(folder)), driver_(driver) {}

  Outcome operator()(HookTrace& trace, const std::vector<RowLogger::Row>& earlier, const std::optional<std::string>& ckpt_path,
                     const std::function<void(Trainer&, const RowLogger&)>& prepare = {},
                     const std::function<void(Trainer&)>& finish = {}) {
    auto logger = std::make_shared<RowLogger>(earlier);
    EarlyStoppingOptions patient;
    patient.monitor = plan_.validation_samples > 0 ? "val_loss" : "loss";
    patient.patience = plan_.patience;
    patient.strict = false;
    auto stopping = std::make_shared<EarlyStopping>(patient);
    ModelCheckpointOptions saving;
    saving.dirpath = folder_ / "checkpoints";
    saving.save_top_k = -1;
    saving.every_n_train_steps = plan_.every_n_train_steps;
    saving.enable_version_counter = false;
    if (plan_.validation_samples > 0) saving.monitor = "val_loss";
    auto checkpoint = std::make_shared<ModelCheckpoint>(saving);

    TrainerOptions options = quiet_options();
    options.enable_checkpointing = std::nullopt;
    options.logger = logger;
    options.callbacks = {std::make_shared<RecordingCallback>(trace),
                         LearningRateMonitor(),
                         stopping,
                         std::make_shared<LateCallback>(trace, "before ModelCheckpoint"),
                         checkpoint,
                         std::make_shared<LateCallback>(trace, "after ModelCheckpoint")};
    if (plan_.averaging == "mean") options.callbacks.push_back(std::make_shared<WeightAveraging>());
    if (plan_.averaging == "swa") {
      options.callbacks.push_back(std::make_shared<StochasticWeightAveraging>(
          StochasticWeightAveragingOptions{.swa_lrs = 0.03, .swa_epoch_start = 2, .annealing_epochs = 1}));
    }
    if (plan_.averaging == "ema") {
      options.callbacks.push_back(std::make_shared<EMAWeightAveraging>(EMAWeightAveragingOptions{
          .decay = 0.5, .update_every_n_steps = 2, .update_starting_at_step = 1, .update_starting_at_epoch = 1}));
    }
    if (plan_.finetuning) {
      options.callbacks.push_back(std::make_shared<BackboneFinetuning>(BackboneFinetuningOptions{
          .backbone = "late", .unfreeze_backbone_at_epoch = static_cast<std::int64_t>(plan_.seed % 2), .lambda_func = "1.5"}));
    }
    if (!plan_.pruning.empty()) {
      const Value::Map arguments{
          {"pruning_fn", plan_.pruning}, {"amount", 1}, {"prune_on_train_epoch_end", plan_.seed % 2 == 0}};
      options.callbacks.push_back({Value("ModelPruning"), Value(arguments)});
    }
    const auto guard = std::make_shared<SpikeGuard>(
        SpikeGuardOptions{.action = plan_.guard == "rollback" ? SpikeAction::kRollback : SpikeAction::kSkip,
                          .window = 5,
                          .warmup = 2,
                          .threshold_loss = 0.5,
                          .threshold_gradient_norm = 0.5,
                          .every_n_steps = 2,
                          .lr_factor = 0.9,
                          .max_rollbacks = 1000});
    if (!plan_.guard.empty()) options.callbacks.push_back(guard);
    options.accelerator = test_accelerator();
    options.devices = Devices(plan_.ranks);
    options.precision = plan_.precision;
    if (plan_.bad_losses) options.on_nan = OnNan::kSkip;
    if (!plan_.strategy.empty()) options.strategy = strategy();
    options.max_epochs = plan_.epochs;
    options.max_steps = is_cut_ && plan_.cut_by == "max_steps" ? plan_.cut_at : plan_.max_steps;
    options.accumulate_grad_batches = plan_.accumulate;
    options.val_check_interval = plan_.val_check_interval;
    options.check_val_every_n_epoch = plan_.check_val_every_n_epoch;
    options.log_every_n_steps = plan_.log_every;
    options.num_sanity_val_steps = plan_.sanity_steps;
    options.reload_dataloaders_every_n_epochs = plan_.reload;
    options.validate_before_training = plan_.validate_first;

    const int rank = Trainer(rank_options()).rank();
    seed_everything(ckpt_path ? 999 : 7);
    torch::manual_seed(ckpt_path ? 999 : 7 + static_cast<std::uint64_t>(rank));
    Program module(trace, plan_, is_cut_);
    std::optional<Trainer> own_trainer;
    std::optional<Session> session;
    if (driver_ == Driver::kSession) session.emplace(options, module);
    Trainer& trainer = session ? session->trainer() : own_trainer.emplace(options);
    trace.before_entry = [&](const std::string& entry) { module.change_parameters(entry); };
    if (prepare) prepare(trainer, *logger);
    std::function<double()> noise;
    if (plan_.workers == 0) noise = [&module] { return module.own_noise(); };
    MadeAnew data(plan_.samples, plan_.validation_samples);
    data.make = [&](std::int64_t samples, bool shuffle) -> LoaderPtr {
      const double offset = 0.05 * static_cast<double>(trainer.current_epoch());
      if (!plan_.source.empty() && plan_.source != "pipeline") {
        return resume_loader(
            {.name = plan_.source, .folder = folder_, .samples = samples, .offset = offset, .shuffle = shuffle},
            plan_.batch_size, plan_.workers);
      }
      const auto dataset = std::make_shared<NoisyDataset>(samples, offset, noise);
      if (!plan_.source.empty()) {
        const Pipeline<Batch> in_order = from_dataset(dataset);
        return stream((shuffle ? in_order.shuffle(4) : in_order).batch(plan_.batch_size), {.num_workers = plan_.workers});
      }
      return std::make_shared<DataLoader>(
          dataset, DataLoaderOptions{.batch_size = plan_.batch_size, .shuffle = shuffle, .num_workers = plan_.workers});
    };
    if (session) {
      module.validation = [&] { return data.val_dataloaders(); };
      drive(*session, noise, ckpt_path);
    } else {
      trainer.fit(module, data, {.ckpt_path = ckpt_path});
    }
    if (finish) finish(trainer);

    Outcome outcome;
    for (const auto& all : {module.named_parameters(), module.named_buffers()}) {
      for (const auto& entry : all) outcome.weights.emplace_back(entry.key(), entry.value().detach().clone());
    }
    outcome.rows = logger->rows;
    outcome.saved = logger->saved;
    const std::vector<double> lrs = get_lrs(*trainer.optimizers()[0]);
    outcome.facts = Value::Map{{"callback_metrics", map_of(trainer.callback_metrics())},
                               {"global_step", trainer.global_step()},
                               {"epoch", trainer.current_epoch()},
                               {"batches", trainer.total_batch_idx()},
                               {"learning rates", Value::List(lrs.begin(), lrs.end())},
                               {"EarlyStopping", stopping->state_dict()},
                               {"SpikeGuard", guard->state_dict()},
                               {"best_k_models", map_of(checkpoint->best_k_models())}};
    return outcome;
  }

 private:
  TrainerOptions rank_options() const {
    TrainerOptions options = quiet_options();
    options.accelerator = test_accelerator();
    options.devices = Devices(plan_.ranks);
    return options;
  }

  /// A user's loop over the batches that fit() would read. It keeps where it is, and reads each batch when it needs it.
  void drive(Session& session, const std::function<double()>& noise, const std::optional<std::string>& ckpt_path) const {
    std::int64_t epoch = 0, batch = 0;
    session.keep("epoch", epoch);
    session.keep("batch", batch);
    session.begin(ckpt_path);
    const auto enter_epoch = [&] {
      if (std::exchange(epoch, session.trainer().current_epoch()) != epoch) batch = 0;
    };
    enter_epoch();
    while (!session.should_stop()) {
      const std::int64_t requested_in = plan_.reload > 0 ? epoch / plan_.reload * plan_.reload : 0;
      const auto dataset = std::make_shared<NoisyDataset>(plan_.samples, 0.05 * static_cast<double>(requested_in), noise);
      DataLoader loader(dataset, DataLoaderOptions{.batch_size = plan_.batch_size, .shuffle = true});
      loader.set_shard(
          {.rank = session.trainer().rank(), .world_size = plan_.ranks, .uneven = Uneven::kPad, .default_seed = 7});
      loader.start_epoch(epoch);
      const std::vector<std::int64_t> samples = loader.epoch_samples(*loader.size()).value();
      bool is_over = false;
      while (!is_over && batch < *loader.size()) {
        const auto begin = samples.begin() + batch * plan_.batch_size;
        const auto end = std::min(begin + plan_.batch_size, samples.end());
        ++batch;
        is_over = session.step(dataset->get_batch({begin, end})).ends_epoch;
      }
      if (!is_over) session.end_epoch();
      enter_epoch();
    }
    session.end();
  }

  Component<Strategy> strategy() const {
    if (plan_.strategy == "ddp_sharded") return plan_.strategy;
    Value arguments(Value::Map{});
    if (plan_.strategy == "power_sgd" || plan_.strategy == "fp16_compress") {
      arguments["comm_hook"] = plan_.strategy;
    } else {
      arguments[plan_.strategy] = true;
    }
    if (plan_.strategy == "power_sgd") {
      arguments["start_power_sgd_iter"] = 2;
      arguments["min_compression_rate"] = 0.1;
    }
    return {Value("ddp"), arguments};
  }

  ResumePlan plan_;
  std::filesystem::path folder_;
  bool is_cut_ = false;
  Driver driver_ = Driver::kFit;
};

struct SavePoint {
  std::string entry;
  std::string file;
  std::size_t saved_before = 0;  ///< by ModelCheckpoint, until the file was written
};

/// Hooks outside of a fit, and those of saving itself.
bool may_save(const std::string& entry) {
  for (const char* part : {"setup", "teardown", "configure_model", "configure_optimizers", "prepare_data", "checkpoint",
                           "state_dict", "on_exception"}) {
    if (entry.find(part) != std::string::npos) return false;
  }
  return true;
}

/// A rank without validation batches has none of their hooks.
bool every_rank_comes(const Trainer& trainer, const std::string& entry) {
  if (trainer.stage() == Stage::kTrain) return true;
  return entry.find("batch") == std::string::npos && entry.find("step") == std::string::npos;
}

/// Saves in hooks of a run. Files requested between two points at which a run can be saved are alike: one of them, in turn that
/// of another hook, becomes a point.
class HookSaves {
 public:
  HookSaves(std::filesystem::path prefix, std::uint64_t seed) : prefix_(std::move(prefix)), turn_(seed) {}
  HookSaves(const HookSaves&) = delete;
  HookSaves& operator=(const HookSaves&) = delete;

  void begin(Trainer& trainer, const RowLogger& logger) {
    trainer_ = &trainer;
    logger_ = &logger;
  }
  bool has_begun() const { return trainer_ != nullptr; }
  Trainer& trainer() const { return *trainer_; }
  std::size_t saved() const { return logger_->saved.size(); }

  void save(const std::string& entry) {
    const std::string file = prefix_.string() + std::to_string(files_++) + ".ckpt";
    trainer_->save_checkpoint(file);
    trainer_->checkpoint_files().when_done([this, entry, file] { written_.push_back({entry, file}); });
  }
  /// Called: in each hook, when nothing is being saved.
  void look() {
    if (written_.empty()) return;
    trainer_->checkpoint_files().wait();  // ModelCheckpoint may have saved at the same point
    SavePoint& chosen = written_[turn_++ % written_.size()];
    chosen.saved_before = saved();
    points.push_back(chosen);
    written_.clear();
  }

  std::vector<SavePoint> points;

 private:
  std::filesystem::path prefix_;
  std::uint64_t turn_;
  Trainer* trainer_ = nullptr;
  const RowLogger* logger_ = nullptr;
  std::size_t files_ = 0;
  std::vector<SavePoint> written_;
};

/// The differences; empty for none.
std::string difference(const Outcome& whole, const Outcome& resumed) {
  std::ostringstream text;
  for (std::size_t i = 0; i < whole.weights.size(); ++i) {
    const auto& [name, weight] = whole.weights[i];
    const at::Tensor& other = resumed.weights[i].second;
    if (torch::equal(weight, other)) continue;
    text << name << " by " << (weight - other).abs().max().item<double>() << "; ";
  }
  if (whole.rows != resumed.rows) {
    text << "rows: " << whole.rows.size() << " and " << resumed.rows.size();
    for (std::size_t i = 0; i < std::max(whole.rows.size(), resumed.rows.size()); ++i) {
      if (i < whole.rows.size() && i < resumed.rows.size() && whole.rows[i] == resumed.rows[i]) continue;
      for (const auto* rows : {&whole.rows, &resumed.rows}) {
        text << (rows == &whole.rows ? "\n    whole:   " : "\n    resumed: ");
        if (i >= rows->size()) continue;
        const auto& [epoch, step, values] = (*rows)[i];
        text << "epoch " << epoch << " step " << step;
        for (const auto& [name, value] : values) text << " " << name << "=" << value;
      }
      break;
    }
    text << "; ";
  }
  for (const auto& [name, fact] : whole.facts.as_map()) {
    if (fact == resumed.facts.at(name)) continue;
    text << name << " " << to_json(fact) << " and " << to_json(resumed.facts.at(name)) << "; ";
  }
  return text.str();
}

/// Resumes from a point, with `rows` written until then. Returns differences from the whole run; empty for none. `apart`: files
/// that may be written or not.
std::string resumed_otherwise(const ResumePlan& plan, const std::filesystem::path& folder, const SavePoint& point,
                              const std::vector<RowLogger::Row>& rows, const Outcome& whole,
                              const std::set<std::string>& apart = {}, Driver driver = Driver::kFit) {
  HookTrace silent;
  std::string text;
  try {
    Outcome resumed = Run(plan, folder, driver)(silent, rows, point.file);
    text = difference(whole, resumed);
    std::vector<std::string> rest(whole.saved.begin() + static_cast<std::ptrdiff_t>(point.saved_before), whole.saved.end());
    for (auto* files : {&rest, &resumed.saved}) {
      std::erase_if(*files, [&](const std::string& file) { return apart.contains(file); });
    }
    if (resumed.saved != rest) {
      text += "saved " + std::to_string(resumed.saved.size()) + " files in place of " + std::to_string(rest.size()) + ":";
      for (const auto& file : rest) text += " " + file;
      text += " |";
      for (const auto& file : resumed.saved) text += " " + file;
    }
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.empty() ? "" : "\n  saved in " + point.entry + " (" + point.file + "): " + text;
}

/// A run that ends within an epoch saves in each hook from there on, and after its end. The same as resumed_otherwise(), for
/// these.
std::string cut_otherwise(const ResumePlan& plan, const std::filesystem::path& folder, Outcome whole, std::size_t stride) {
  HookTrace trace;
  HookSaves saves(folder / "cut ", plan.seed);
  std::optional<std::size_t> saved_before;
  const auto save = [&](const std::string& entry) {
    if (!saved_before) saved_before = saves.saved();  // those of the end are not the whole run's
    saves.save(entry);
  };
  trace.on_entry = [&](const std::string& entry) {
    if (!saves.has_begun() || !saves.trainer().epoch_is_unfinished() || !may_save(entry)) return;
    saves.look();
    if (plan.ranks == 1 || every_rank_comes(saves.trainer(), entry)) save(entry);
  };
  const auto prepare = [&](Trainer& trainer, const RowLogger& logger) { saves.begin(trainer, logger); };
  const auto finish = [&](Trainer& trainer) {
    saves.look();
    if (trainer.epoch_is_unfinished()) save("the program");
    saves.look();
  };
  const Outcome cut = Run(plan, folder, /*is_cut=*/true)(trace, {}, std::nullopt, prepare, finish);
  if (cut.facts.at("batches") == whole.facts.at("batches")) return "";  // something else has ended both
  // Only the cut run has the files of its end and the scores of its last validation. If a later validation has the same step,
  // runs that were saved before the end write its file.
  const std::set<std::string> of_end(cut.saved.begin() + static_cast<std::ptrdiff_t>(saved_before.value_or(0)),
                                     cut.saved.end());
  std::erase_if(whole.facts.as_map(), [](const auto& fact) { return fact.first == "best_k_models"; });
  std::string problems;
  for (std::size_t index = plan.seed % stride; index < saves.points.size() && problems.size() < 3000; index += stride) {
    SavePoint point = saves.points[index];
    point.saved_before = saved_before.value_or(0);
    problems += resumed_otherwise(plan, folder, point, cut.rows, whole, of_end);
  }
  return problems.empty() ? "" : "\n cut:" + problems;
}

/// A run that requests a checkpoint in every hook.
struct SavingRun {
  SavingRun(const ResumePlan& plan, const std::filesystem::path& folder, Driver driver) : saves(folder / "", plan.seed) {
    HookTrace trace;
    trace.on_entry = [&](const std::string& entry) {
      if (!saves.has_begun() || !saves.trainer().fitting() || !may_save(entry)) return;
      saves.look();
      if (plan.ranks == 1 || every_rank_comes(saves.trainer(), entry)) saves.save(entry);
    };
    outcome = Run(plan, folder, driver)(
        trace, {}, std::nullopt, [&](Trainer& trainer, const RowLogger& logger) { saves.begin(trainer, logger); },
        [&](Trainer&) { saves.look(); });
  }
  /// Resumes from each `stride`th point. Gives the differences.
  std::string resumed(const ResumePlan& plan, const std::filesystem::path& folder, std::size_t stride, Driver driver) const {
    std::string problems;
    for (std::size_t index = plan.seed % stride; index < saves.points.size() && problems.size() < 3000; index += stride) {
      problems += resumed_otherwise(plan, folder, saves.points[index], outcome.rows, outcome, {}, driver);
    }
    return problems;
  }

  HookSaves saves;
  Outcome outcome;
};

}  // namespace

std::string check_resume_plan(const ResumePlan& plan, const std::filesystem::path& folder, std::size_t stride) {
  HookTrace silent;
  const Outcome plain = Run(plan, folder)(silent, {}, std::nullopt);
  const SavingRun whole(plan, folder, Driver::kFit);
  std::string problems;
  if (const std::string changed = difference(plain, whole.outcome); !changed.empty()) {
    problems += "saving changes the run: " + changed;
  }
  problems += whole.resumed(plan, folder, stride, Driver::kFit);
  if (!plan.cut_by.empty()) problems += cut_otherwise(plan, folder, whole.outcome, 1);
  return problems.empty() ? "" : plan.str() + ":" + problems;
}

std::string check_session_plan(const ResumePlan& plan, const std::filesystem::path& folder, std::size_t stride) {
  HookTrace silent;
  std::string problems;
  ResumePlan quiet = plan;
  quiet.max_steps = -1;  // fit() knows that the step that reaches it is an epoch's last
  quiet.workers = 2;     // data then draws no random numbers, which fit() would do one batch ahead
  const Outcome fitted = Run(quiet, folder)(silent, {}, std::nullopt);
  const Outcome stepped = Run(quiet, folder, Driver::kSession)(silent, {}, std::nullopt);
  if (const std::string differs = difference(fitted, stepped); !differs.empty()) problems += "fit() differs: " + differs;
  const SavingRun whole(plan, folder, Driver::kSession);
  problems += whole.resumed(plan, folder, stride, Driver::kSession);
  return problems.empty() ? "" : plan.str() + ":" + problems;
}

}  // namespace levin::test
