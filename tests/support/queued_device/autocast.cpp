#include <ATen/autocast_mode.h>
#include <torch/library.h>

// Under autocast the device computes in the types that LibTorch's lists name for all devices.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LEVIN_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define LEVIN_FLOAT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_LOWER_PRECISION_FP(LEVIN_LOWER_PRECISION)
  AT_FORALL_FP32(LEVIN_FLOAT)
#undef LEVIN_LOWER_PRECISION
#undef LEVIN_FLOAT
}
