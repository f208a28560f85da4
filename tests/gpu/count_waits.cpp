// A plug-in for `make gpu-check`: what training steps ask of CUDA, as libgpu_calls.so counts it.
#include <dlfcn.h>
#include <levin/levin.h>

#include <iostream>

#include "cuda_calls.h"

namespace {

class CountWaits : public levin::Callback {
 public:
  struct Options {
    std::int64_t after = 50;
    bool reads = false;

    static void declare(levin::OptionList<Options>& options) {
      options.add("after", &Options::after, "Steps that are not counted: in them memory is taken for the first time");
      options.add("reads", &Options::reads, "Read the loss in each step, as a test of what counts");
    }
  };
  explicit CountWaits(const Options& options) : options_(options) {
    counts_ = reinterpret_cast<CudaCallsFunction>(dlsym(RTLD_DEFAULT, "levin_cuda_calls"));
    show_ = reinterpret_cast<void (*)(bool)>(dlsym(RTLD_DEFAULT, "levin_show_cuda_waits"));
    if (counts_ == nullptr) throw levin::MisuseError("CountWaits needs LD_PRELOAD=libgpu_calls.so");
  }
  levin::CallbackPhase phase() const override { return levin::CallbackPhase::kCheckpoint; }

  void on_train_batch_end(levin::Trainer& trainer, levin::Module&, const levin::StepOutput& output, const levin::Batch&,
                          std::int64_t) override {
    if (options_.reads) output.loss.item<float>();
    CudaCalls now;
    counts_(&now);
    show_(trainer.global_step() > options_.after);
    if (trainer.global_step() > options_.after) {
      ++steps_;
      total_.waits += now.waits - before_.waits;
      total_.copies_to_host += now.copies_to_host - before_.copies_to_host;
      total_.copies_to_device += now.copies_to_device - before_.copies_to_device;
      total_.allocations += now.allocations - before_.allocations;
      if (now.waits > before_.waits) ++with_waits_;
    }
    before_ = now;
  }
  void on_train_end(levin::Trainer&, levin::Module&) override {
    show_(false);
    std::cout << "steps=" << steps_ << " steps_with_waits=" << with_waits_ << " waits=" << total_.waits
              << " copies_to_host=" << total_.copies_to_host << " copies_to_device=" << total_.copies_to_device
              << " allocations=" << total_.allocations << std::endl;
  }

 private:
  Options options_;
  CudaCallsFunction counts_ = nullptr;
  void (*show_)(bool) = nullptr;
  CudaCalls before_, total_;
  std::int64_t steps_ = 0, with_waits_ = 0;
};

LEVIN_REGISTER_CALLBACK(CountWaits, "Counts what training steps ask of CUDA");

}  // namespace
