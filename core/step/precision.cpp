#include "levin/core/step/precision.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"

namespace levin {
namespace {

/// Also true if unknown.
bool processor_has_bfloat16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__aarch64__) && defined(HWCAP2_BF16)
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  return true;
#endif
}

}  // namespace

std::string slow_format_warning(PrecisionFormat format, at::DeviceType device, bool has_bfloat16) {
  const bool is_short = format != PrecisionFormat::kFloat32 && format != PrecisionFormat::kFloat64;
  if (!is_short || device != at::kCPU || has_bfloat16) return "";
  return levin::format(
      "trainer.precision: {} is slower here than 32-true would be, up to ten times: this processor has no bfloat16 "
      "arithmetic, and computes in 32 bits. Set 32-true, unless you want the numbers of another device.",
      choice_name(format));
}

PrecisionPolicy::PrecisionPolicy(PrecisionFormat format, const Accelerator& accelerator, at::Device device, bool channels_last)
    : device_(device), channels_last_(channels_last) {
  if (const std::string warning = slow_format_warning(format, device_.type(), processor_has_bfloat16()); !warning.empty())
    rank_warn_once(warning);
  if (format == PrecisionFormat::kFloat64) weights_ = at::kDouble;
  if (format == PrecisionFormat::kBfloat16) weights_ = at::kBFloat16;
  autocast_ = format == PrecisionFormat::kBfloat16Mixed || format == PrecisionFormat::kFloat16Mixed;
  if (!autocast_) return;
  const auto type = accelerator.autocast_type(format);
  if (!type) {
    const bool has_bfloat16 = accelerator.autocast_type(PrecisionFormat::kBfloat16Mixed).has_value();
    throw ConfigError("trainer.precision: '" + std::string(choice_name(format)) + "' is not available on " + device.str() +
                      "; it is 32-true, 64-true, " + (has_bfloat16 ? "bf16-mixed " : "") + "or bf16-true.");
  }
  autocast_type_ = *type;
  if (format == PrecisionFormat::kFloat16Mixed && *type != at::kHalf) {
    rank_warn_once("trainer.precision: 16-mixed computes in bfloat16 on ", device.str(),
                   ", as bf16-mixed does: name that, so that results do not change with the device.");
  }
}

void PrecisionPolicy::prepare_module(Module& module) const {
  const at::NoGradGuard no_grad;
  if (!device_.is_cpu()) module.to(device_);
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      // As in Python's Module.double(), integers, booleans and complex numbers keep their type. LibTorch's casts all.
      if (weights_ != at::kFloat && tensor.is_floating_point()) tensor.set_data(tensor.to(weights_));
      if (channels_last_ && tensor.dim() == 4) tensor.set_data(tensor.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

Batch PrecisionPolicy::convert_input(Batch batch) const {
  if (weights_ != at::kFloat) batch = batch.to(weights_);
  return channels_last_ ? batch.to(at::MemoryFormat::ChannelsLast) : batch;
}

PrecisionPolicy::Forward::Forward(const PrecisionPolicy& precision) : precision_(precision) {
  if (!precision_.autocast_) return;
  autocast_was_enabled_ = at::autocast::is_autocast_enabled(precision_.device_.type());
  autocast_type_was_ = at::autocast::get_autocast_dtype(precision_.device_.type());
  at::autocast::set_autocast_enabled(precision_.device_.type(), true);
  at::autocast::set_autocast_dtype(precision_.device_.type(), precision_.autocast_type_);
  at::autocast::increment_nesting();
}

PrecisionPolicy::Plain::Plain(at::DeviceType device)
    : device_(device), autocast_was_enabled_(at::autocast::is_autocast_enabled(device)) {
  if (autocast_was_enabled_) at::autocast::set_autocast_enabled(device_, false);
}

PrecisionPolicy::Plain::~Plain() {
  if (!autocast_was_enabled_) return;
  // Drops casts of weights that an optimizer has changed since.
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, true);
}

PrecisionPolicy::Forward::~Forward() {
  if (!precision_.autocast_) return;
  // Leaving the outermost autocast region drops the casts of weights that it cached.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(precision_.device_.type(), autocast_was_enabled_);
  at::autocast::set_autocast_dtype(precision_.device_.type(), autocast_type_was_);
}

}  // namespace levin
