#pragma once

#include <string>

#include "levin/strategies/failure/failure_record.h"

namespace levin {

/// Gives the text to the sink of messages, or writes it to stderr in one write, as lines of its own.
void print_report(const std::string& text);

/// The line with which a failed run's error begins: "levin: rank 1 failed in …". Not where levin is embedded: what is thrown
/// there says the same.
void print_failure(const FailureRecord& failure) noexcept;

}  // namespace levin
