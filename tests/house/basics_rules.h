#pragma once

#include <string>
#include <vector>

#include "house/house_rules.h"

namespace levin::test {

/// Where a file of a room does by hand what core/base does for all, one line for each: "core/trainer.h:12: …". The rules:
/// - a number becomes part of a text with format(), not with `+ std::to_string(x) +`;
/// - only core/base formats with fmt, printf's functions or streams' precision;
/// - words are joined with join(), and UTF-8 is decoded with core/base/utf8.h;
/// - descriptors travel with strategies/host/shared_file.h.
std::vector<std::string> basics_findings(const SourceFile& file);

}  // namespace levin::test
