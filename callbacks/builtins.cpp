#include "levin/callbacks/builtins.h"

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/memory_monitor.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/prediction_writer.h"
#include "levin/callbacks/progress_bar.h"
#include "levin/callbacks/simple_profiler.h"
#include "levin/callbacks/throughput_monitor.h"
#include "levin/callbacks/torch_profiler.h"
#include "levin/core/options/registry.h"

namespace levin {

void register_builtin_callbacks() {
  Registry<Callback>& registry = Registry<Callback>::instance();
  registry.add<EarlyStopping>("EarlyStopping", "Stop training when a metric no longer improves");
  registry.add<GradientAccumulationScheduler>("GradientAccumulationScheduler",
                                              "Change accumulate_grad_batches at given epochs");
  registry.add<GradientSyncCheck>("GradientSyncCheck", "Find weights and gradients that differ between ranks");
  registry.add<LearningRateMonitor>("LearningRateMonitor", "Hand learning rates to the loggers");
  registry.add<MemoryMonitor>("MemoryMonitor", "Log the memory of each rank, and warn when it grows");
  registry.add<ModelCheckpoint>("ModelCheckpoint", "Save the best or the newest checkpoints");
  registry.add<ModelSummary>("ModelSummary", "Print what the model is made of");
  registry.add<OnExceptionCheckpoint>("OnExceptionCheckpoint", "Save the state of a run that ends with an error");
  registry.add<PredictionWriter>("PredictionWriter", "Write predictions to files");
  registry.add<ProgressBar>("ProgressBar", "Show how far a run is");
  registry.add<ProgressBar>("RichProgressBar", "Another name of ProgressBar");
  registry.add<ProgressBar>("TQDMProgressBar", "Another name of ProgressBar");
  registry.add<ThroughputMonitor>("ThroughputMonitor", "Log samples, batches and floating-point operations a second");
  registry.add<Timer>("Timer", "Measure time, and stop training after a given time");

  Registry<Profiler>& profilers = Registry<Profiler>::instance();
  profilers.add<SimpleProfiler>("simple", "Add up the times of hooks and actions, and what ranks wait for one another");
  profilers.add<SimpleProfiler>("SimpleProfiler", "Another name of simple");
  profilers.add<TorchProfiler>("torch", "Trace some batches with LibTorch's profiler, for Chrome and Perfetto");
  profilers.add<TorchProfiler>("PyTorchProfiler", "Another name of torch");
}

}  // namespace levin
