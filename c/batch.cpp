#include "levin/c/batch.h"

#include <ATen/DLConvertor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/StringUtil.h>

#include <array>
#include <memory>

#include "levin/c/status.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin::c {

namespace {

constexpr std::int32_t kMostDimensions = 64;  // LibTorch's

/// In the order of levin_dtype.
constexpr std::array kTypes = {at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
                               at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

levin_dtype dtype_of(const at::Tensor& tensor) {
  for (std::size_t index = 0; index < kTypes.size(); ++index) {
    if (kTypes[index] == tensor.scalar_type()) return static_cast<levin_dtype>(index);
  }
  throw MisuseError(format("a tensor of type {} has no levin_dtype: take it by levin_batch_get_dlpack()",
                           at::toString(tensor.scalar_type())));
}

const at::Tensor& found(const levin_batch* batch, const char* name) {
  require(batch, "batch");
  return name == nullptr ? batch->batch[0] : batch->batch[name];
}

/// What DLPack's consumer owes a tensor that it does not take.
template <class Managed>
struct Deleter {
  void operator()(Managed* tensor) const {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
};

template <class Managed>
levin_status set_managed(levin_batch* batch, const char* name, Managed* tensor, at::Tensor (*take)(Managed*)) {
  return guarded([&] {
    require(tensor, "tensor");
    std::unique_ptr<Managed, Deleter<Managed>> owned(tensor);
    require(batch, "batch");
    require(name, "name");
    at::Tensor taken = take(tensor);
    owned.release();
    batch->batch.set(name, std::move(taken));
  });
}

}  // namespace

at::Tensor tensor_of(void* data, levin_dtype dtype, std::int32_t dimensions, const std::int64_t* shape,
                     const std::int64_t* strides) {
  if (dtype < 0 || dtype >= std::ssize(kTypes)) throw MisuseError(format("there is no levin_dtype {}", dtype));
  if (dimensions < 0 || dimensions > kMostDimensions)
    throw MisuseError(format("a tensor cannot have {} dimensions", dimensions));
  if (dimensions > 0) require(shape, "shape");
  const at::IntArrayRef sizes(shape, static_cast<std::size_t>(dimensions));
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      throw MisuseError(format("{} is no shape", c10::str(sizes)));
    }
  }
  if (elements > 0) require(data, "data");
  const auto options = at::TensorOptions(kTypes.at(static_cast<std::size_t>(dtype)));
  if (strides == nullptr) return at::from_blob(data, sizes, options);
  const at::IntArrayRef steps(strides, static_cast<std::size_t>(dimensions));
  for (const std::int64_t step : steps) {
    if (step < 0) throw MisuseError(format("strides {} go backwards, which tensors cannot", c10::str(steps)));
  }
  return at::from_blob(data, sizes, steps, options);
}

void require_shape(const at::Tensor& memory, const at::Tensor& tensor, const char* name) {
  if (memory.sizes() == tensor.sizes()) return;
  throw MisuseError(format("tensor '{}' has the shape {}, the memory for it {}", name == nullptr ? "" : name,
                           c10::str(tensor.sizes()), c10::str(memory.sizes())));
}

}  // namespace levin::c

using levin::c::guarded;
using levin::c::require;

levin_status levin_batch_create(levin_batch** batch) {
  return guarded([&] {
    require(batch, "batch");
    *batch = std::make_unique<levin_batch>().release();
  });
}

void levin_batch_free(levin_batch* batch) { std::unique_ptr<levin_batch>{batch}.reset(); }

levin_status levin_batch_set(levin_batch* batch, const char* name, void* data, levin_dtype dtype, int32_t dimensions,
                             const int64_t* shape, const int64_t* strides) {
  return guarded([&] {
    require(batch, "batch");
    require(name, "name");
    batch->batch.set(name, levin::c::tensor_of(data, dtype, dimensions, shape, strides));
  });
}

levin_status levin_batch_set_dlpack(levin_batch* batch, const char* name, DLManagedTensor* tensor) {
  return levin::c::set_managed<DLManagedTensor>(batch, name, tensor, [](auto* given) { return at::fromDLPack(given); });
}

levin_status levin_batch_set_dlpack_versioned(levin_batch* batch, const char* name, DLManagedTensorVersioned* tensor) {
  return levin::c::set_managed<DLManagedTensorVersioned>(batch, name, tensor,
                                                         [](auto* given) { return at::fromDLPackVersioned(given); });
}

size_t levin_batch_size(const levin_batch* batch) { return batch == nullptr ? 0 : batch->batch.size(); }

const char* levin_batch_name(const levin_batch* batch, size_t position) {
  return position < levin_batch_size(batch) ? batch->batch.items()[position].first.c_str() : nullptr;
}

levin_status levin_batch_get(const levin_batch* batch, const char* name, levin_tensor* tensor) {
  return guarded([&] {
    const at::Tensor& item = levin::c::found(batch, name);
    require(tensor, "tensor");
    *tensor = {.data = item.mutable_data_ptr(),
               .dtype = levin::c::dtype_of(item),
               .device_type = item.is_cuda() ? LEVIN_CUDA : LEVIN_CPU,
               .device_index = static_cast<int32_t>(item.is_cpu() ? 0 : item.device().index()),
               .dimensions = static_cast<int32_t>(item.dim()),
               .shape = item.sizes().data(),
               .strides = item.strides().data()};
  });
}

levin_status levin_batch_copy(const levin_batch* batch, const char* name, void* data, levin_dtype dtype, int32_t dimensions,
                              const int64_t* shape, const int64_t* strides) {
  return guarded([&] {
    const at::Tensor& item = levin::c::found(batch, name);
    const at::Tensor memory = levin::c::tensor_of(data, dtype, dimensions, shape, strides);
    levin::c::require_shape(memory, item, name);
    memory.copy_(item.detach());
  });
}

levin_status levin_batch_get_dlpack(const levin_batch* batch, const char* name, DLManagedTensor** tensor) {
  return guarded([&] {
    require(tensor, "tensor");
    *tensor = at::toDLPack(levin::c::found(batch, name).detach());
  });
}
