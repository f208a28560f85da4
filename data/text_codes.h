#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace levin::detail {

/// Different texts by their bytes, or as numbers where `as_numbers` and all are such.
std::vector<std::string> sorted_texts(std::vector<std::string> texts, bool as_numbers, char decimal);

/// The texts of a column, each with a number, while its rows are read: the order in which they come.
class TextCodes {
 public:
  /// Of a text, which is added where it is new.
  double number_of(std::string_view text);
  bool empty() const { return came_as_.empty(); }
  /// The texts, sorted by their bytes, or as numbers where `as_numbers` and all are such; replaces the numbers in `values`, of
  /// one dimension, by the present ones. NaN stays.
  std::vector<std::string> sort(bool as_numbers, char decimal, const at::Tensor& values) const;

 private:
  std::map<std::string, double, std::less<>> came_as_;
};

}  // namespace levin::detail
