#include "levin/strategies/failure/failure_record.h"

#include "levin/core/base/format.h"

namespace levin {

std::string FailureRecord::place() const { return format("rank {} failed {}", rank, describe_place(where)); }

std::string FailureRecord::str() const { return format("{}: {}", place(), error); }

std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause) {
  return format("rank {} ended {}, because {}", rank, describe_place(where), cause.place());
}

}  // namespace levin
