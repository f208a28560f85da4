// A user's program with a Session on several ranks, each with calls of its own. Run by session_ranks_test.
// Arguments: scenario=calls ranks=… folder=… calls=RANK0/RANK1/… uneven=keep|drop manual=1 accumulate=… max_steps=…
// limit=… stall=SECONDS lone=RANK: calls are separated by commas. "3" is a step with a batch of three samples; others are named
// below.
#include <signal.h>

#include <cstdlib>
#include <thread>

#include "distributed/one_weight_run.h"
#include "levin/core/session.h"

namespace levin::test::session_program {

namespace {

/// Takes its steps itself where asked to.
class Stepping final : public OneWeight {
 public:
  explicit Stepping(bool manual) { set_automatic_optimization(!manual); }
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (rank_of_lone_metric == trainer().rank()) log("lone", 5.0, {.on_step = false, .on_epoch = true});
    StepOutput output = OneWeight::training_step(batch, batch_idx);
    if (automatic_optimization()) return output;
    optimizer().zero_grad();
    manual_backward(output.loss);
    step_optimizer();
    return {};
  }
  int rank_of_lone_metric = -1;
};

/// Its samples are numbered through all ranks and steps: rank r's are 100 r + 1, 100 r + 2, …
class Samples {
 public:
  explicit Samples(int rank) : next_(100.0 * rank + 1) {}
  Batch take(std::int64_t count) {
    const at::Tensor x = torch::arange(next_, next_ + static_cast<double>(count), torch::kFloat);
    next_ += static_cast<double>(count);
    return {{"x", x}};
  }

 private:
  double next_;
};

void run_calls(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  options.max_epochs.reset();
  options.uneven = settings.text("uneven") == "drop" ? Uneven::kDrop : Uneven::kKeep;
  options.accumulate_grad_batches = settings.number("accumulate", 1);
  options.max_steps = settings.number("max_steps", -1);
  options.stall_report_seconds = settings.number("stall", 60);
  if (settings.has("limit")) options.limit_train_batches = Limit(std::int64_t{settings.number("limit")});
  Stepping module(settings.number("manual") == 1);
  module.rank_of_lone_metric = settings.number("lone", -1);
  Session session(options, module);
  session.begin();
  const int rank = session.trainer().rank();
  Samples samples(rank);
  Report report(settings.text("folder"), rank);
  const auto folder = std::filesystem::path(settings.text("folder"));
  for (const std::string& call : parts_of(parts_of(settings.text("calls"), '/').at(static_cast<std::size_t>(rank)), ',')) {
    if (call == "end_epoch") {
      report.add("is_over", session.end_epoch());
      report.add("mean",
                 session.callback_metrics().contains("input_epoch") ? session.callback_metrics().at("input_epoch") : -1);
      report.add("lone", session.callback_metrics().contains("lone") ? session.callback_metrics().at("lone") : -1);
    } else if (call == "begin_epoch") {
      session.begin_epoch();
    } else if (call == "validate") {
      report.add("val", session.validate({numbers(2, 10.0 * (rank + 1))}).at(0).at("val_input"));
    } else if (call == "save") {
      session.save(folder / "saved.ckpt");
    } else if (call == "resume") {
      session.end();
      session.begin((folder / "saved.ckpt").string());
    } else if (call == "end") {
      session.end();
    } else if (call == "stop") {
      session.stop("enough");
    } else if (call == "throw") {
      throw std::runtime_error("the simulator failed");
    } else if (call == "ponder") {
      std::this_thread::sleep_for(std::chrono::seconds(4));  // a world that takes its time
    } else if (call == "exit") {
      std::exit(3);
    } else if (call == "kill") {
      raise(SIGKILL);
    } else {
      report.add("stops", session.step(samples.take(std::stoll(call))).stops);
    }
  }
  report.add("weight", module.weight());
  report.add("global_step", session.global_step());
  report.add("epoch", session.trainer().current_epoch());
}

const RankProgram program("session", run_calls);

}  // namespace

}  // namespace levin::test::session_program
