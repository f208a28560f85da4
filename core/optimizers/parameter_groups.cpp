#include "levin/core/optimizers/parameter_groups.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {
namespace {

std::string texts_of(const NamePatterns& patterns) {
  return join(patterns, ", ", [](const NamePattern& pattern) { return quoted_text(pattern.text()); });
}

/// Names, and what they are made of.
std::vector<std::string> parts_of(const std::vector<std::string>& names) {
  std::set<std::string> parts(names.begin(), names.end());
  for (const std::string& name : names) {
    for (std::size_t begin = 0; begin < name.size();) {
      const std::size_t end = std::min(name.find('.', begin), name.size());
      parts.insert(name.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return {parts.begin(), parts.end()};
}

void check_matches_any(const NamePattern& pattern, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return pattern.matches(name); })) return;
  constexpr std::size_t kMostNames = 10;
  const std::string nearest = nearest_name(pattern.text(), parts_of(names));
  const std::vector<std::string> some(names.begin(), names.begin() + std::min<std::ptrdiff_t>(std::ssize(names), kMostNames));
  const std::string help = nearest.empty() ? format("; there are {}{}", join(some), names.size() > kMostNames ? ", …" : "")
                                           : format("; did you mean {}?", quoted_text(nearest));
  throw ConfigError(pattern.place(), format("no parameter's name matches {}{}", quoted_text(pattern.text()), help));
}

}  // namespace

std::vector<std::vector<at::Tensor>> parameter_groups(const torch::nn::Module& module,
                                                      const std::vector<NamePatterns>& patterns) {
  const std::vector<std::string> names = module.named_parameters().keys();
  for (const NamePatterns& list : patterns) {
    for (const NamePattern& pattern : list) check_matches_any(pattern, names);
  }
  std::vector<std::vector<at::Tensor>> groups(patterns.size() + 1);
  std::vector<bool> has_any(patterns.size() + 1);
  for (const auto& entry : distinct_parameters(module)) {
    const std::string& name = entry.first;  // no structured binding: clang 14 does not let a lambda use one
    const auto list = std::find_if(patterns.begin(), patterns.end(), [&](const NamePatterns& each) {
      return std::any_of(each.begin(), each.end(), [&](const NamePattern& one) { return one.matches(name); });
    });
    const auto group = static_cast<std::size_t>(list - patterns.begin());
    has_any[group] = true;
    if (entry.second.requires_grad()) groups[group].push_back(entry.second);
  }
  for (std::size_t index = 0; index < patterns.size(); ++index) {
    if (has_any[index] || patterns[index].empty()) continue;
    throw ConfigError(patterns[index].front().place(),
                      format("all parameters whose names match {} are in groups before this one: the first that matches counts",
                             texts_of(patterns[index])));
  }
  return groups;
}

}  // namespace levin
