#include <ATen/record_function.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <memory>
#include <optional>
#include <string>

#include "levin/callbacks/with_options.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/profiler.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

namespace profiling = torch::profiler::impl;

/// What LibTorch knows of profiling a kind of device. The library of the device has put it there when it was loaded.
using Stubs = const profiling::ProfilerStubs* (*)();

/// Gives each operator that this thread calls a range, and those of its backward passes, on whichever thread they run: `seq`
/// says which belong together. LibTorch's own observer (emit_nvtx) does so too on a GPU; of another device it may not be there.
template <Stubs stubs>
at::CallbackHandle mark_operators() {
  const auto enter = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    const std::string name = function.name();
    stubs()->rangePush((function.seqNr() < 0 ? name : format("{}, seq = {}", name, function.seqNr())).c_str());
    return nullptr;
  };
  const auto leave = [](const at::RecordFunction&, at::ObserverContext*) { stubs()->rangePop(); };
  return at::addThreadLocalCallback(at::RecordFunctionCallback(enter, leave));
}

}  // namespace

struct NvtxProfilerOptions {
  bool operators = false;

  static void declare(OptionList<NvtxProfilerOptions>& options) {
    options.add(&NvtxProfilerOptions::operators, "Also mark LibTorch's operators, as PyTorch's emit_nvtx does");
  }
};

/// Marks actions as NVTX ranges, which Nsight Systems shows next to the GPU's work. Measures and writes nothing itself. A
/// device of the user's own (PrivateUse1) is given ranges where its library takes them.
class NvtxProfiler final : public WithOptions<Profiler, NvtxProfilerOptions> {
 public:
  explicit NvtxProfiler(Options options) : WithOptions("NvtxProfiler", options) {}

  void begin(Trainer& trainer, Stage) override {
    const Accelerator& accelerator = trainer.strategy().accelerator();
    const bool is_own = accelerator.device_type() == at::kPrivateUse1;
    const auto* const stubs = is_own ? profiling::privateuse1Stubs() : profiling::cudaStubs();
    if (!(is_own || accelerator.device_type() == at::kCUDA) || !stubs->enabled()) {
      throw ConfigError(format(
          "profiler: nvtx marks ranges for NVIDIA's Nsight Systems, on accelerator: cuda; this run's, {}, takes none. On "
          "any device `profiler: simple` adds up the times of hooks, and `profiler: torch` traces operators.",
          accelerator.name()));
    }
    stubs_ = stubs;
    if (!options_.operators) return;
    operators_ = is_own ? mark_operators<&profiling::privateuse1Stubs>() : mark_operators<&profiling::cudaStubs>();
  }

  void start(std::string_view action) override {
    if (stubs_ == nullptr) return;
    stubs_->rangePush(std::string(action).c_str());
    ++open_;
  }

  void stop(std::string_view) override {
    if (open_ == 0) return;  // it began before the entry point
    stubs_->rangePop();
    --open_;
  }

  void end(Trainer&) override { close(); }
  void end_failed(Trainer&) override { close(); }

 private:
  /// Ends what is under way.
  void close() {
    if (operators_) at::removeCallback(*operators_);
    operators_.reset();
    while (open_ > 0) stop("");
    stubs_ = nullptr;
  }

  const profiling::ProfilerStubs* stubs_ = nullptr;  ///< null: not in an entry point
  std::optional<at::CallbackHandle> operators_;
  int open_ = 0;  ///< ranges that have begun and not ended
};

LEVIN_REGISTER_(Profiler, NvtxProfiler, "nvtx", "Mark hooks and actions as ranges, for NVIDIA's Nsight Systems");

}  // namespace levin
