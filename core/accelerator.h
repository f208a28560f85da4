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
  std::optional<std::int64_t> used = std::nullopt;  ///< of the device, by all processes; unset where it does not say
};

/// Work that a device has recorded: it does it again, in the same memory, with one call.
class LEVIN_API DeviceGraph {
 public:
  // Here, so that a library which is loaded later needs no symbol of levin's.
  virtual ~DeviceGraph() = default;
  /// Calls `work`: what it gives the device to do is recorded, not done; memory that it takes stays the graph's. Throws what
  /// `work` throws, and c10::Error for what cannot be recorded, such as reading a number. Called: once.
  virtual void record(const std::function<void()>& work) = 0;
  /// Does what has been recorded, after all that the device was given before.
  virtual void replay() = 0;
};

/// All that depends on the kind of device that a run computes on. `cpu` and `cuda` are built in; register your own with
/// LEVIN_REGISTER_ACCELERATOR and choose it by name, `accelerator: Name`. Defaults go through what LibTorch knows of the
/// device. Called: made before it is known whether this machine has such devices; making one loads nothing.
class LEVIN_API Accelerator {
 public:
  virtual ~Accelerator();

  /// "cuda": as messages call it, and as a checkpoint calls the state of its random numbers.
  virtual std::string name() const = 0;
  /// The accelerator that this one stands for on this machine; itself when null. `auto` uses it.
  virtual std::shared_ptr<Accelerator> resolve() { return nullptr; }
  /// Where tensors are: at::kCUDA.
  virtual at::DeviceType device_type() const = 0;
  /// One device, in messages: "GPU". By default "<name> device".
  virtual std::string device_noun() const { return name() + " device"; }
  /// A device, for the line that says what a rank runs on: "cuda:1".
  virtual std::string describe(const at::Device& device) const { return device.str(); }

  /// The environment variable that chooses the devices which this process sees, for messages: "CUDA_VISIBLE_DEVICES"; "": none.
  virtual std::string visibility_variable() const { return ""; }
  /// How many devices this process can see. Throws ConfigError that says what is missing when it cannot use them at all.
  virtual int device_count() const;
  /// The devices of the ranks of this host, by local rank, as `trainer.devices` asks for them; `auto` is all. Throws
  /// ConfigError for devices that do not exist.
  virtual std::vector<int> devices_of_ranks(const Devices& devices) const;
  /// The device of a rank of this host, which becomes the current one of the calling thread. Devices `auto` give each of those
  /// that a launcher has started one of its own. Throws as devices_of_ranks() does.
  virtual at::Device choose(const Devices& devices, int local_rank) const;
  /// Makes a device the current one of the calling thread, and gives it.
  virtual at::Device select(int index) const;
  /// Waits until the device has done all that it was given.
  virtual void synchronize(const at::Device& device) const;
  /// Unset where nobody counts it.
  virtual std::optional<DeviceMemory> memory(const at::Device& /*device*/) const { return std::nullopt; }
  /// What DeviceStatsMonitor logs of a device, by PyTorch's names: "allocated_bytes.all.current". By default nothing.
  virtual std::map<std::string, double> statistics(const at::Device& /*device*/) const { return {}; }
  /// Gives what LibTorch keeps for later tensors back to the device. By default nothing is kept. Called: by clear_memory().
  virtual void clear_memory(const at::Device& /*device*/) const {}
  /// The device's own random numbers: seeded by seed_everything(), kept in checkpoints. Unset where there are only the CPU's.
  virtual std::optional<at::Generator> generator(const at::Device& device) const;

  /// What tensors travel over from rank to rank: "nccl". Default: "gloo", which levin makes: tensors of a device then go by way
  /// of the host's memory, and each exchange waits for the device.
  virtual std::string backend_name() const { return "gloo"; }
  /// Makes the backend of that name among all ranks, which meet in `store`. It may come back from a call before the device has
  /// done it. When the process ends its shutdown() is called, or abort() after a failure. Not called for "gloo". Ranks: all.
  virtual c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                         double timeout_seconds) const;

  /// A graph to record work of a device in. `before`: one whose memory it uses too, so that the two are replayed by turns, this
  /// one second; null: none. Null where this kind of device records nothing, as by default.
  virtual std::unique_ptr<DeviceGraph> make_graph(const at::Device& device, const DeviceGraph* before) const;

  /// What forward passes compute in under a mixed precision (bf16-mixed or 16-mixed); unset: not on this kind of device.
  virtual std::optional<at::ScalarType> autocast_type(PrecisionFormat format) const;
  /// Batches are read into memory from which they can be copied to the device while it computes.
  virtual bool pins_memory() const { return device_type() != at::kCPU; }
};

/// Memory that this process has, in bytes.
struct LEVIN_API ProcessMemory {
  std::int64_t resident = 0;  ///< in RAM now
  std::int64_t peak = 0;      ///< the most that was
  std::int64_t in_use = 0;    ///< what has been allocated and not been freed, tensors on the CPU included; 0: nobody counts it
};
LEVIN_API ProcessMemory process_memory();

/// Of a tensor on the CPU like one on a device: in page-locked memory where LibTorch has that for this kind of device, which
/// then copies from and to it while the host does something else.
LEVIN_API at::TensorOptions host_options(const at::Tensor& on_device);

/// Gives memory that is free, but kept for later, back to the system and to the device that this process computes on. Slow:
/// what comes next has to ask for it again. For programs that do something else between two runs.
LEVIN_API void clear_memory();

}  // namespace levin
