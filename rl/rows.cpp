#include "levin/rl/rows.h"

#include <c10/util/StringUtil.h>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch.h"

namespace levin {

std::string form_of_rows(const at::Tensor& tensor) { return c10::str(tensor.sizes(), " ", tensor.scalar_type()); }

std::int64_t rows_of(const Batch& batch, const char* what) {
  if (batch.empty()) throw MisuseError(format("{}: the batch has no tensors.", what));
  std::int64_t rows = -1;
  for (const auto& [name, tensor] : batch.items()) {
    if (name.empty() || name.find('.') != std::string::npos) {
      throw MisuseError(format("{}: a tensor needs a name without a dot, which '{}' is not.", what, name));
    }
    if (!tensor.defined() || tensor.dim() == 0) throw MisuseError(format("{}: '{}' has no rows.", what, name));
    if (rows < 0) rows = tensor.size(0);
    if (tensor.size(0) != rows) {
      throw MisuseError(
          format("{}: '{}' is {}, but '{}' has {} rows.", what, name, form_of_rows(tensor), batch.items().front().first, rows));
    }
  }
  return rows;
}

void check_rows(const at::Tensor& given, const at::Tensor& stored, const std::string& name, const char* what) {
  if (given.sizes().slice(1) == stored.sizes().slice(1) && given.scalar_type() == stored.scalar_type()) return;
  throw MisuseError(format("{}: '{}' is {}, but earlier rows of it are {} {}.", what, name, form_of_rows(given),
                           c10::str(stored.sizes().slice(1)), c10::str(stored.scalar_type())));
}

}  // namespace levin
