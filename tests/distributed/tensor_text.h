#pragma once

#include <torch/torch.h>

#include <sstream>
#include <string>
#include <vector>

namespace levin::test {

/// All their numbers for a Report, exactly: "0.5,-1,2". Of complex ones both parts; "none" where there is no number.
inline std::string numbers_text(const std::vector<at::Tensor>& tensors) {
  std::ostringstream text;
  text.precision(17);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.detach();
    const at::Tensor flat = (whole.is_complex() ? torch::view_as_real(whole) : whole).to(at::kDouble).flatten();
    for (std::int64_t index = 0; index < flat.numel(); ++index)
      text << (text.tellp() > 0 ? "," : "") << flat[index].item<double>();
  }
  return text.tellp() > 0 ? text.str() : "none";
}

}  // namespace levin::test
