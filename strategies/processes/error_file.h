#pragma once

#include "levin/strategies/processes/failure_record.h"

namespace levin {

/// Writes the failure to the file that $TORCHELASTIC_ERROR_FILE names, in torchrun's JSON format, so that its summary shows the
/// error. Does nothing when the variable is not set; a file that cannot be written is reported on stderr only. Never throws.
void write_error_file(const FailureRecord& failure) noexcept;

}  // namespace levin
