#pragma once

#include <filesystem>
#include <memory>

#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"

namespace levin {

/// A function that Python's levin_train.export_function() has compiled, as a part of a module or program: tensors by name go
/// in, and tensors by name come out. It computes no gradients.
///
///     levin::CompiledFunction encoder("encoder.pt2");
///     at::Tensor code = encoder({{"image", images}})["code"];
///
/// Threading: may be called on any thread; calls of one object wait for one another.
class LEVIN_API CompiledFunction {
 public:
  /// Throws IoError for a file that is damaged or no package, and ConfigError for one that is for another LibTorch, system or
  /// processor, or has steps of a module instead of a function.
  explicit CompiledFunction(const std::filesystem::path& package);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;
  CompiledFunction& operator=(CompiledFunction&&) noexcept;

  /// Throws MisuseError, naming the tensor, for inputs of another type or shape than the package takes.
  Batch operator()(const Batch& inputs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levin
