#include "levin/strategies/processes/failure_record.h"

namespace levin {

std::string describe(const Whereabouts& where) {
  if (where.epoch < 0) return "before the first hook";
  return (where.hook == Hook::kNone ? "between hooks" : std::string(hook_name(where.hook))) + " (" +
         std::string(stage_name(where.stage)) + ", epoch " + std::to_string(where.epoch) + ", step " +
         std::to_string(where.step) + ")";
}

std::string describe_place(const Whereabouts& where) { return (where.hook == Hook::kNone ? "" : "in ") + describe(where); }

std::string FailureRecord::place() const { return "rank " + std::to_string(rank) + " failed " + describe_place(where); }

std::string FailureRecord::str() const { return place() + ": " + error; }

std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause) {
  return "rank " + std::to_string(rank) + " ended " + describe_place(where) + ", because " + cause.place();
}

}  // namespace levin
