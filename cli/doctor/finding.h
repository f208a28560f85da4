#pragma once

#include <functional>
#include <string>
#include <vector>

#include "levin/core/options/value.h"

namespace levin::cli {

/// kWarning: it works, but worse than it could. kWrong: something will fail.
enum class Verdict { kOk, kWarning, kWrong };

/// Something that levin doctor has looked at.
struct Finding {
  std::string what;
  std::string value;  ///< as it is
  Verdict verdict = Verdict::kOk;
  std::string advice = {};  ///< what follows from it, and what to do; shown where not all is well
};
using Findings = std::vector<Finding>;

struct DoctorSection {
  std::string title;
  Findings findings;
};

/// All of it, in lines of at most 100 columns.
std::string report_text(const std::vector<DoctorSection>& sections);
/// The same for programs.
Value report_value(const std::vector<DoctorSection>& sections);
/// 1 where something is wrong.
int report_status(const std::vector<DoctorSection>& sections);

/// What `look` finds, in a thread of its own: a disk or a name server may not answer, which then is what has been found. So is
/// an error.
Findings look_within(double seconds, const std::string& what, std::function<Findings()> look);

/// "512 MiB", "1.5 GiB".
std::string bytes_text(double bytes);

}  // namespace levin::cli
