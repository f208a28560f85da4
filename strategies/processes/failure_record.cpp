#include "levin/strategies/processes/failure_record.h"

#include "levin/core/base/format.h"

namespace levin {

std::string describe(const Whereabouts& where) {
  if (where.epoch < 0) return "before the first hook";
  return format("{} ({}, epoch {}, step {})", where.hook == Hook::kNone ? "between hooks" : hook_name(where.hook),
                stage_name(where.stage), where.epoch, where.step);
}

std::string describe_place(const Whereabouts& where) { return (where.hook == Hook::kNone ? "" : "in ") + describe(where); }

std::string FailureRecord::place() const { return format("rank {} failed {}", rank, describe_place(where)); }

std::string FailureRecord::str() const { return format("{}: {}", place(), error); }

std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause) {
  return format("rank {} ended {}, because {}", rank, describe_place(where), cause.place());
}

}  // namespace levin
