#include "levin/strategies/processes/failure_record.h"

namespace levin {

std::string describe(const Whereabouts& where) {
  if (where.hook == Hook::kNone) return "before the first hook";
  return std::string(hook_name(where.hook)) + " (" + std::string(stage_name(where.stage)) + ", epoch " +
         std::to_string(where.epoch) + ", step " + std::to_string(where.step) + ")";
}

std::string FailureRecord::str() const {
  const std::string place = where.hook == Hook::kNone ? describe(where) : "in " + describe(where);
  return "rank " + std::to_string(rank) + " failed " + place + ": " + error;
}

}  // namespace levin
