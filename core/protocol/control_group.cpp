#include "levin/core/protocol/control_group.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

namespace {

bool are_alike(const std::vector<GroupCall>& calls, bool (*alike)(const GroupCall&, const GroupCall&)) {
  return std::all_of(calls.begin(), calls.end(), [&](const GroupCall& call) { return alike(call, calls.front()); });
}

bool same_what(const GroupCall& left, const GroupCall& right) { return left.what == right.what; }
bool same_operation(const GroupCall& left, const GroupCall& right) {
  return left.operation == right.operation && (left.operation != GroupOperation::kBroadcast || left.root == right.root);
}
bool same_size(const GroupCall& left, const GroupCall& right) {
  return left.operation != GroupOperation::kAllGather || left.bytes == right.bytes;
}

std::string operation_text(const GroupCall& call) {
  switch (call.operation) {
    case GroupOperation::kAllGather:
      return "all_gather";
    case GroupOperation::kGather:
      return "gather";
    case GroupOperation::kBroadcast:
      return format("broadcast from rank {}", call.root);
  }
  return "an unknown call";  // another program's number
}

}  // namespace

ControlGroup::~ControlGroup() = default;

void ControlGroup::check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const {
  if (all.size() == mine.size() * static_cast<std::size_t>(size())) return;
  throw MisuseError(
      format("all_gather in {}: the buffer for all ranks has {} bytes instead of {} a rank", what, all.size(), mine.size()));
}

void ControlGroup::check_root(int root, const char* what) const {
  if (root >= 0 && root < size()) return;
  throw MisuseError(format("broadcast in {}: there is no rank {} among {}", what, root, size()));
}

void SingleProcessGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (all.size() != mine.size()) {
    throw MisuseError(format("all_gather '{}' of one rank needs room for {} bytes, and got {}", what, mine.size(), all.size()));
  }
  std::copy(mine.begin(), mine.end(), all.begin());
}

std::vector<std::string> SingleProcessGroup::gather(std::string_view mine, std::uint64_t, const char*) {
  return {std::string(mine)};
}

std::string SingleProcessGroup::broadcast(std::string_view mine, int root, std::uint64_t, const char* what) {
  check_root(root, what);
  return std::string(mine);
}

std::string describe_different_calls(const std::vector<GroupCall>& by_rank, int first_rank) {
  const bool whats = !are_alike(by_rank, same_what);
  const bool operations = !are_alike(by_rank, same_operation);
  const bool sizes = !are_alike(by_rank, same_size);
  if (!whats && !operations && !sizes) return "";
  std::string text = "ranks met in different calls:";
  int rank = first_rank;
  for (const GroupCall& call : by_rank) {
    text += format("\n  rank {}: {}", rank++, call.what);
    if (whats) continue;
    text += operations ? format(" ({})", operation_text(call)) : format(" ({} bytes)", call.bytes);
  }
  return text;
}

std::string describe_too_long(const std::vector<GroupCall>& by_rank, std::uint64_t longest, int first_rank) {
  for (std::size_t index = 0; index < by_rank.size(); ++index) {
    const GroupCall& call = by_rank[index];
    if (call.operation == GroupOperation::kAllGather || call.bytes <= longest) continue;
    return format("rank {} announces {} bytes in {}, where {} are the most", first_rank + static_cast<int>(index), call.bytes,
                  call.what, longest);
  }
  return "";
}

}  // namespace levin
