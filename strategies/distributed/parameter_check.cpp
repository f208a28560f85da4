#include "levin/strategies/distributed/parameter_check.h"

#include <torch/types.h>

#include <array>
#include <functional>
#include <sstream>

#include "levin/core/error.h"

namespace levin {

namespace {

void add_line(std::string& text, const char* kind, const std::string& name, const at::Tensor& tensor) {
  std::ostringstream line;
  line << kind << " " << name << " ";
  if (tensor.defined()) {
    line << tensor.sizes() << " " << tensor.scalar_type() << (tensor.requires_grad() ? "" : " not trained");
  } else {
    line << "undefined";
  }
  text += line.str() + "\n";
}

std::string describe(const torch::nn::Module& module) {
  std::string text;
  for (const auto& entry : module.named_parameters()) add_line(text, "parameter", entry.key(), entry.value());
  for (const auto& entry : module.named_buffers()) add_line(text, "buffer", entry.key(), entry.value());
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The first difference of a rank's module from rank 0's; empty when they are the same.
std::string difference(int rank, const std::string& mine, const std::string& reference) {
  const auto own = lines_of(mine);
  const auto first = lines_of(reference);
  for (std::size_t i = 0; i < std::max(own.size(), first.size()); ++i) {
    const std::string here = i < own.size() ? own[i] : "nothing more";
    const std::string there = i < first.size() ? first[i] : "nothing more";
    if (here != there) {
      return "\n  rank " + std::to_string(rank) + ": " + here + "\n  rank 0: " + there + "\n  (entry " + std::to_string(i + 1) +
             "; rank " + std::to_string(rank) + " has " + std::to_string(own.size()) + ", rank 0 has " +
             std::to_string(first.size()) + ")";
    }
  }
  return "";
}

}  // namespace

void check_same_parameters(const torch::nn::Module& module, ControlGroup& group) {
  const std::string mine = describe(module);
  const std::array<std::uint64_t, 2> summary = {mine.size(), std::hash<std::string>{}(mine)};
  std::vector<std::array<std::uint64_t, 2>> summaries(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(summary)), std::as_writable_bytes(std::span(summaries)),
                   "the comparison of parameters");
  bool same = true;
  for (const auto& other : summaries) same &= other == summaries[0];
  if (same) return;
  const auto texts = all_gather_text(group, mine, "the comparison of parameters");
  for (int rank = 1; rank < group.size(); ++rank) {
    const std::string text = difference(rank, texts[static_cast<std::size_t>(rank)], texts[0]);
    if (!text.empty()) throw DesyncError("the module differs between ranks; all must build the same one:" + text);
  }
}

}  // namespace levin
