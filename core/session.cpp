#include "levin/core/session.h"

#include <c10/util/ScopeExit.h>

#include <set>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/core/module.h"
#include "levin/core/protocol/session_calls.h"
#include "levin/core/run/epoch_plan.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/run_sections.h"
#include "levin/core/train/entry_point.h"
#include "levin/core/train/process_settings.h"
#include "levin/core/train/stepped_loader.h"
#include "levin/core/train/thread_of_run.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

TrainerOptions without_epoch_limit(TrainerOptions options) {
  if (!options.max_epochs) options.max_epochs = -1;
  return options;
}

}  // namespace

struct Session::Impl {
  Impl(TrainerOptions options, const std::function<SessionParts(Trainer&)>& make)
      : trainer(without_epoch_limit(std::move(options))), run(TrainerState::of(trainer)), parts(make(trainer)) {
    if (!parts.module) throw MisuseError("Session: the function that makes its parts gave no module.");
    run.entry.is_session = true;
  }

  /// Runs a part of the session. After an error there is no fit any more.
  void work(const char* call, const std::function<void()>& part) {
    if (!fit) throw MisuseError(format("Session::{}(): call begin() first.", call));
    if (thread != std::this_thread::get_id()) {
      throw MisuseError(format("Session::{}() was called by another thread than begin(): a session is for one thread.", call));
    }
    guarded([&] { entry->step(part); });
  }
  /// Ranks: all. `part` uses the entry point, which an error ends.
  void guarded(const std::function<void()>& part) {
    const ProcessSettings settings(trainer.options());
    const ThreadOfRun of_run(run);
    run.tracker.come_back();
    try {
      part();
    } catch (...) {
      fit.reset();
      entry.reset();
      throw;
    }
    run.tracker.leave();
  }
  /// Ranks: all. What they do next, by what the caller of each asks for.
  SessionWork next_work(SessionCall call) {
    std::vector<SessionCall> calls = {call};
    if (run.world_size() > 1) {
      // Every rank reaches this because each meets the others in each call, whichever it is.
      const BoundaryOutcome outcome = run.boundaries.meet(BoundaryKind::kSessionCall, {static_cast<std::int64_t>(call)});
      fit->epoch().throw_if_signalled();
      calls.clear();
      for (const BoundaryPayload& payload : outcome.payloads) calls.push_back(static_cast<SessionCall>(payload[0]));
    }
    return work_of(calls, stops_with_first());
  }
  bool stops_with_first() const { return ends_with_first_rank(run.options(), parts.module->automatic_optimization()); }
  bool is_over() const { return !fit->continues() || is_ended; }

  /// Ends epochs that have no batches left, and begins one. False: training is over.
  bool open_epoch() {
    while (fit->continues()) {
      if (!epoch_is_open) fit->begin_epoch();
      epoch_is_open = true;
      if (fit->epoch().continues()) return true;
      close_epoch();
    }
    return false;
  }
  /// A run that resumes inside an epoch is there when begin() returns: between two steps, or after the epoch, if the step or
  /// the end_epoch() in which it was saved ends it.
  void resume_epoch() {
    fit->begin_epoch();
    epoch_is_open = true;
    if (!fit->epoch().continues()) close_epoch();
  }
  void close_epoch() {
    fit->end_epoch();
    epoch_is_open = false;
  }
  void end_epoch() {
    if (!epoch_is_open) return;
    loader->set_has_next(false);
    if (fit->epoch().continues()) fit->epoch().finish();
    close_epoch();
  }
  /// One iteration. False: training was over before it.
  bool iterate(StepOutput& output) {
    if (!open_epoch()) return false;
    output = fit->epoch().iterate();
    if (!fit->epoch().continues()) close_epoch();
    return true;
  }
  /// Ranks: all. Takes part in their work until this rank's call is next, or done, or training is over: for step(), which has a
  /// batch, until an iteration is next. Gives what is next.
  SessionWork work_until(SessionCall call) {
    while (true) {
      const bool has_batch = call == SessionCall::kStep || call == SessionCall::kBeginEpoch;
      const SessionWork next = next_work(call);
      loader->set_has_next(has_batch);
      if (next == SessionWork::kCall || (next == SessionWork::kIterate && call == SessionCall::kStep)) return next;
      StepOutput none;
      if (next == SessionWork::kBeginEpoch) open_epoch();
      if (next == SessionWork::kIterate) iterate(none);
      if (next == SessionWork::kEndEpoch) end_epoch();
      if (next == SessionWork::kEndTraining) end_training();
      const bool is_done = call == SessionCall::kEndEpoch ? !epoch_is_open : call == SessionCall::kBeginEpoch && epoch_is_open;
      if (is_done || (is_over() && call != SessionCall::kEnd)) return next;
    }
  }
  void end_training() {
    end_epoch();
    is_ended = true;
    run.progress.end_reason = "a rank has ended its session";
  }
  /// A stage that fit() does not set up.
  void set_up(Stage stage) {
    if (stages_set_up.contains(stage)) return;
    const auto scope = run.hooks.enter(Hook::kSetup);
    if (parts.data) parts.data->setup(stage);
    parts.module->setup(stage);
    stages_set_up.insert(stage);
  }
  /// What the caller's code has changed since the last point belongs to the next checkpoint.
  void save_here() {
    begin_place(run, run.resume.position.place);
    save_requested(run);
  }

  Trainer trainer;
  TrainerState& run;
  SessionParts parts;
  std::thread::id thread;
  std::shared_ptr<SteppedLoader> loader;
  std::optional<EntryPoint> entry;
  std::optional<FitLoop> fit;
  std::set<Stage> stages_set_up;
  bool epoch_is_open = false;
  bool is_ended = false;  ///< a rank has called end(), and epochs end with the first
};

Session::Session(TrainerOptions options, Module& module)
    : Session(std::move(options), [&](Trainer&) {
        // The caller owns it.
        return SessionParts{.module = std::shared_ptr<Module>(std::shared_ptr<void>(), &module)};
      }) {}
Session::Session(TrainerOptions options, const std::function<SessionParts(Trainer&)>& make)
    : impl_(std::make_unique<Impl>(std::move(options), make)) {}
Session::Session(Session&& other) noexcept = default;
Session::~Session() {
  if (!impl_ || !impl_->fit) return;
  try {
    // Other ranks do not wait for this one in vain.
    impl_->guarded([&] { impl_->entry->step([] { throw MisuseError("The session was destroyed before end()."); }); });
  } catch (...) {  // reported by the entry point
  }
}

void Session::begin(const std::optional<std::string>& ckpt_path) {
  Impl& own = *impl_;
  if (own.fit) throw MisuseError("Session::begin(): the session has begun. Call end() first.");
  own.thread = std::this_thread::get_id();
  own.loader = std::make_shared<SteppedLoader>();
  own.stages_set_up = {Stage::kTrain, Stage::kValidate};
  own.epoch_is_open = own.is_ended = false;
  own.guarded([&] {
    RunOptions options = own.parts.options;
    if (ckpt_path) options.ckpt_path = ckpt_path;
    own.entry.emplace(own.run, *own.parts.module, DataSource(own.loader, {}, own.parts.data.get()), Stage::kTrain, options);
    own.entry->begin();
    own.entry->step([&] {
      own.fit.emplace(own.run, own.entry->precision(), own.entry->source());
      own.fit->begin(own.entry->resume_point());
      if (own.entry->resume_point().is_in_epoch()) own.resume_epoch();
    });
  });
}

StepResult Session::step(Batch batch, Closure closure) {
  impl_->run.step_closure = std::move(closure);
  const auto back = c10::make_scope_exit([this] { impl_->run.step_closure = nullptr; });
  return step(std::move(batch));
}

StepResult Session::step(Batch batch) {
  Impl& own = *impl_;
  StepResult result;
  own.work("step", [&] {
    if (own.is_over()) {
      throw MisuseError(format("Session::step(): training is over ({}). Call end().", own.run.progress.end_reason));
    }
    own.loader->give(std::move(batch));
    if (own.work_until(SessionCall::kStep) == SessionWork::kIterate) own.iterate(result.output);
    own.loader->drop();
    result.ends_epoch = !own.epoch_is_open;
    result.stops = own.is_over();
  });
  return result;
}

bool Session::begin_epoch() {
  Impl& own = *impl_;
  own.work("begin_epoch", [&] {
    if (!own.is_over() && !own.epoch_is_open) own.work_until(SessionCall::kBeginEpoch);
  });
  return own.is_over();
}

bool Session::end_epoch() {
  Impl& own = *impl_;
  own.work("end_epoch", [&] {
    if (own.epoch_is_open) own.work_until(SessionCall::kEndEpoch);
  });
  return own.is_over();
}

std::vector<MetricMap> Session::evaluate(Stage stage, LoaderList loaders) {
  Impl& own = *impl_;
  const bool tests = stage == Stage::kTest;
  std::vector<MetricMap> results;
  own.work(tests ? "test" : "validate", [&] {
    own.next_work(tests ? SessionCall::kTest : SessionCall::kValidate);
    own.set_up(stage);
    DataSource source(nullptr, std::move(loaders), own.parts.data.get());
    loaders = source.evaluation(stage, *own.parts.module, own.run.setup, own.run.hooks);
    if (loaders.empty()) {
      throw MisuseError(
          format("Session::{}(): there is no data. Give it loaders or batches, or override {}() of the module "
                 "or the data module.",
                 tests ? "test" : "validate", hook_name(dataloaders_hook(stage))));
    }
    EvaluationLoop loop(own.run, own.entry->precision(), stage, std::move(loaders));
    loop.run();
    results = loop.results();
    own.save_here();
  });
  return results;
}

std::vector<MetricMap> Session::validate(LoaderList loaders) { return evaluate(Stage::kValidate, std::move(loaders)); }
std::vector<MetricMap> Session::test(LoaderList loaders) { return evaluate(Stage::kTest, std::move(loaders)); }

Batch Session::predict(Batch batch) {
  Impl& own = *impl_;
  Batch prediction;
  own.work("predict", [&] {
    TrainerState& run = own.run;
    const at::AutoGradMode no_gradients(false);
    const ModuleModes modes(*own.parts.module);
    const StageScope stage(run.progress, Stage::kPredict);
    const auto back = c10::make_scope_exit([&] { modes.restore(); });
    const bool was_evaluating = run.weights.is_evaluating();
    run.weights.evaluate();
    own.parts.module->eval();
    batch = transfer_batch(run.hooks, *run.metrics, run.strategy().device(), own.entry->precision(), std::move(batch), 0, 1);
    {
      const PrecisionPolicy::Forward forward(own.entry->precision());
      prediction = run.hooks.module(Hook::kPredictStep, &Module::predict_step, batch, std::int64_t{0});
    }
    if (!was_evaluating) run.weights.train();
  });
  return prediction;
}

void Session::save(const std::filesystem::path& file) {
  Impl& own = *impl_;
  own.work("save", [&] {
    own.next_work(SessionCall::kSave);
    own.trainer.save_checkpoint(file);
    own.save_here();
  });
}

WeightsReport Session::load(const std::filesystem::path& file, const WeightsOptions& options) {
  Impl& own = *impl_;
  WeightsReport report;
  own.work("load", [&] {
    own.next_work(SessionCall::kLoad);
    report = load_weights(*own.parts.module, file, options);
    own.save_here();
  });
  return report;
}

void Session::end() {
  Impl& own = *impl_;
  own.work("end", [&] {
    own.work_until(SessionCall::kEnd);
    own.end_epoch();
    if (own.fit->continues() && !own.is_ended) own.run.progress.end_reason = "its caller has ended the session";
    own.fit->end();
  });
  own.guarded([&] { own.entry->end(); });
  own.fit.reset();
  own.entry.reset();
}

void Session::keep(const std::string& name, KeptFunctions functions) {
  if (impl_->fit) throw MisuseError("Session::keep(): call it before begin(), which restores what a checkpoint has.");
  impl_->run.sections->get<KeptSection>().add(name, std::move(functions));
}

void Session::keep(const std::string& name, Value& value) {
  keep(name, {[&value] { return KeptState{.values = value}; }, [&value](const KeptState& kept) { value = kept.values; }});
}

void Session::keep(const std::string& name, at::Tensor& tensor) {
  keep(name, {[&tensor] {
                return KeptState{.tensors = {{"tensor", tensor}}};
              },
              [&tensor](const KeptState& kept) {
                const at::NoGradGuard no_grad;
                tensor = kept.tensors.at("tensor").to(tensor.defined() ? tensor.device() : at::kCPU, /*non_blocking=*/false,
                                                      /*copy=*/true);
              }});
}

bool Session::should_stop() const { return impl_->run.wishes.stop_asked() || (impl_->fit && impl_->is_over()); }

void Session::stop(const std::string& reason) { impl_->trainer.stop(reason); }
Shard Session::shard() const { return shard_of(impl_->run.setup, Stage::kTrain); }
std::int64_t Session::global_step() const { return impl_->trainer.global_step(); }
const MetricMap& Session::callback_metrics() const { return impl_->trainer.callback_metrics(); }
Module& Session::module() { return *impl_->parts.module; }
Trainer& Session::trainer() { return impl_->trainer; }

}  // namespace levin
