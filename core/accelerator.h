#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/trainer_values.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace levin {

/// Memory of a device that this process holds, in bytes.
struct LEVIN_API DeviceMemory {
  std::int64_t allocated = 0;                       ///< in tensors
  std::int64_t reserved = 0;                        ///< taken from the device
  std::optional<std::int64_t> used = std::nullopt;  ///< of the device, by all processes; unset: not reported
};

/// Recorded device work, which one call repeats in the same memory.
class LEVIN_API DeviceGraph {
 public:
  // Inline, so that a library that is loaded later needs no symbol of levin.
  virtual ~DeviceGraph() = default;
  /// Calls `work` and records the device's operations without running them. The graph owns the memory that they allocate.
  /// Throws what `work` throws, and c10::Error for what cannot be recorded, such as reading a number. Called: once.
  virtual void record(const std::function<void()>& work) = 0;
  /// Runs the recorded operations after all work that is already queued on the device.
  virtual void replay() = 0;
};

/// All that depends on the kind of device that a run computes on. `cpu` and `cuda` are built in; register your own with
/// LEVIN_REGISTER_ACCELERATOR and choose it by name, `accelerator: Name`. The defaults use LibTorch's interface to the device.
/// Called: constructed before levin knows whether this machine has such devices; the constructor loads nothing.
class LEVIN_API Accelerator {
 public:
  virtual ~Accelerator();

  /// "cuda": the name in messages, and of its random-number state in checkpoints.
  virtual std::string name() const = 0;
  /// The accelerator that this one selects on this machine; null: itself. `auto` uses it.
  virtual std::shared_ptr<Accelerator> resolve() { return nullptr; }
  /// The type of its tensors: at::kCUDA.
  virtual at::DeviceType device_type() const = 0;
  /// One device, in messages: "GPU". By default "<name> device".
  virtual std::string device_noun() const { return name() + " device"; }
  /// A device, for the line that reports what a rank runs on: "cuda:1".
  virtual std::string describe(const at::Device& device) const { return device.str(); }

  /// The environment variable that selects this process's visible devices, for messages: "CUDA_VISIBLE_DEVICES"; "": none.
  virtual std::string visibility_variable() const { return ""; }
  /// The number of devices that this process sees. Throws a ConfigError that says what is missing when it can use none.
  virtual int device_count() const;
  /// The devices of the ranks of this host, by local rank, as `trainer.devices` asks for them; `auto` is all. Throws
  /// ConfigError for devices that do not exist.
  virtual std::vector<int> devices_of_ranks(const Devices& devices) const;
  /// Chooses the device of a rank of this host and makes it the calling thread's current one. With devices `auto`, each rank
  /// that a launcher started gets its own. Throws as devices_of_ranks() does.
  virtual at::Device choose(const Devices& devices, int local_rank) const;
  /// Makes a device the calling thread's current one and returns it.
  virtual at::Device select(int index) const;
  /// Waits until the device has finished its queued work.
  virtual void synchronize(const at::Device& device) const;
  /// Unset where it is not measured.
  virtual std::optional<DeviceMemory> memory(const at::Device& /*device*/) const { return std::nullopt; }
  /// What DeviceStatsMonitor logs for a device, under PyTorch's names: "allocated_bytes.all.current". Default: nothing.
  virtual std::map<std::string, double> statistics(const at::Device& /*device*/) const { return {}; }
  /// Returns memory that LibTorch caches to the device. Default: nothing is cached. Called: by clear_memory().
  virtual void clear_memory(const at::Device& /*device*/) const {}
  /// The device's generator: seed_everything() seeds it, checkpoints store it. Unset where only the CPU has one.
  virtual std::optional<at::Generator> generator(const at::Device& device) const;

  /// The backend that carries tensors between ranks: "nccl". Default: "gloo", which levin makes. Device tensors then travel
  /// through host memory, and each exchange waits for the device.
  virtual std::string backend_name() const { return "gloo"; }
  /// Makes that backend for all ranks, which find one another through `store`. Its calls may return before the device has
  /// finished. At the process's end levin calls its shutdown(), or abort() after a failure. Not called for "gloo". Ranks: all.
  virtual c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                         double timeout_seconds) const;

  /// A graph to record device work in. `before`: a graph whose memory this one shares, so that the two are replayed
  /// alternately, this one second; null: none. Default: null, this kind of device cannot record.
  virtual std::unique_ptr<DeviceGraph> make_graph(const at::Device& device, const DeviceGraph* before) const;

  /// The type of forward passes under a mixed precision (bf16-mixed or 16-mixed); unset: not supported on this kind of device.
  virtual std::optional<at::ScalarType> autocast_type(PrecisionFormat format) const;
  /// Batches are read into page-locked memory, so that copies overlap with the device's work.
  virtual bool pins_memory() const { return device_type() != at::kCPU; }
};

/// Memory that this process has, in bytes.
struct LEVIN_API ProcessMemory {
  std::int64_t resident = 0;  ///< in RAM now
  std::int64_t peak = 0;      ///< the highest so far
  std::int64_t in_use = 0;    ///< allocated and not freed, with tensors on the CPU; 0: not measured
};
LEVIN_API ProcessMemory process_memory();

/// Options for a CPU tensor like one on a device: in page-locked memory where LibTorch has that for this kind of device, so
/// that copies do not block the host.
LEVIN_API at::TensorOptions host_options(const at::Tensor& on_device);

/// Returns cached free memory to the system and to this process's device. Slow: later work must allocate it again. For programs
/// that do something else between two runs.
LEVIN_API void clear_memory();

}  // namespace levin
