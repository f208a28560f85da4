#include "levin/core/fit_preview.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/run/epoch_plan.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/state_scope.h"
#include "levin/core/train/entry_point.h"

namespace levin {

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

/// Parameters and buffers hold copies during its lifetime. Their gradient accumulators are replaced, too, because the originals
/// reduce over ranks.
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
    at::Tensor buffer;  ///< a buffer's value at the start of each step
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
    const ExchangeSite site("the first batch of a check", "all ranks have the same checks");
    const auto batches = run.rank_exchange().gather_values(static_cast<int>(batch.has_value()), site);
    has_loss = std::ranges::count(batches, 0) == 0;
  }

  void ask_for_loaders() {
    require_training_data(run);
    // As for the length of training: not while a loader is being made.
    DataSource* const source = std::exchange(run.data_ahead, nullptr);
    const auto back = c10::make_scope_exit([&] { run.data_ahead = source; });
    if (source == nullptr)
      throw MisuseError("A FitPreview works only in on_fit_start: before it there is no data, and after it the run starts.");
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
    if (loaders.front().batches == 0 || loader.is_interactive()) return;
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
bool FitPreview::interrupted() const { return state_->run.wishes.received_signal() != 0; }

at::Tensor FitPreview::loss() {
  const at::AutoGradMode with_gradients(true);
  state_->tensors.begin_step();
  state_->before_step->restore();
  Batch copy;
  for (const auto& [name, tensor] : state_->batch->items()) copy.set(name, tensor.clone());
  const PrecisionPolicy::Forward forward(state_->precision);
  const at::Tensor loss = state_->run.hooks.module(Hook::kTrainingStep, &Module::training_step, std::as_const(copy), 0).loss;
  if (loss.defined() && loss.numel() == 1) return loss;
  throw MisuseError("training_step returned no loss of one number for the first batch; a check needs it.");
}

void FitPreview::backward(const at::Tensor& loss) { state_->run.hooks.module(Hook::kBackward, &Module::backward, loss); }

}  // namespace levin
