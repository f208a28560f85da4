#pragma once

#include <memory>

/// Marks a class or function of the public headers: liblevin.so exports it for programs and plug-ins. All else is hidden and
/// can change between versions (-fvisibility=hidden). On a class it covers all of its members, its vtable and its typeinfo, so
/// that casts and exceptions work from one library to another.
#define LEVIN_API __attribute__((visibility("default")))

// Forward declarations, so that headers that only pass these types on do not need torch's headers.
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
class Metric;
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
