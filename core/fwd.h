#pragma once

#include <memory>

// Forward declarations, so that headers which only pass these types on stay free of torch's headers.
namespace at {
class Tensor;
}
namespace torch::optim {
class Optimizer;
}

namespace levin {

class Accelerator;
class BackgroundFiles;
class Batch;
class BatchLoader;
class Callback;
class Checkpoint;
class ControlGroup;
class DataModule;
class Logger;
class LrScheduler;
class MetricStore;
class Module;
class Profiler;
class RankGroup;
class Strategy;
class Trainer;
class VoteChannel;
struct StepOutput;
struct TrainerOptions;

}  // namespace levin
