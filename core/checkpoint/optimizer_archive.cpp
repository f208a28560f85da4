#include "levin/core/checkpoint/optimizer_archive.h"

#include <ATen/ops/empty.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstring>
#include <sstream>

#include "levin/core/error.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

at::Tensor archive_optimizer(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive output;
  optimizer.save(output);
  std::ostringstream stream;
  output.save_to(stream);
  const std::string bytes = std::move(stream).str();
  torch::serialize::InputArchive written;
  written.load_from(bytes.data(), bytes.size());
  if (written.keys().empty() && !optimizer.state().empty()) {
    const std::string name = optimizer_class_name(optimizer);
    throw MisuseError("The optimizer " + name + " has state that a checkpoint would not hold: override " + name +
                      "::save() and load(), or save weights only.");
  }
  at::Tensor archive = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(archive.mutable_data_ptr(), bytes.data(), bytes.size());
  return archive;
}

void load_optimizer_archive(torch::optim::Optimizer& optimizer, const at::Tensor& archive) {
  try {
    torch::serialize::InputArchive input;
    input.load_from(static_cast<const char*>(archive.const_data_ptr()), archive.nbytes());
    optimizer.load(input);
  } catch (const c10::Error& error) {
    throw ConfigError("The checkpoint's optimizer " + optimizer_class_name(optimizer) +
                      " cannot be loaded: " + error.what_without_backtrace());
  }
}

}  // namespace levin
