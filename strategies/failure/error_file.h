#pragma once

#include "levin/strategies/failure/failure_record.h"

namespace levin {

/// Writes the failure to the file that $TORCHELASTIC_ERROR_FILE names, in torchrun's JSON format, so that its summary shows the
/// error. Does nothing when the variable is not set; a file that cannot be written is reported on stderr only. Never throws.
void write_error_file(const FailureRecord& failure) noexcept;

/// The same for a rank that ends because of another one's failure: what this rank says, and that failure's error. torchrun
/// calls the earliest failure the root cause and dates ranks without a file by itself, to the second, so this one is dated
/// later. Does nothing in a rank that levin's launcher started: those share one file, which is the failed rank's.
void write_consequence_file(const std::string& consequence, const FailureRecord& cause) noexcept;

}  // namespace levin
