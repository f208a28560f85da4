#include <algorithm>
#include <chrono>
#include <future>
#include <memory>

#include "levin/cli/doctor/findings.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"

namespace levin::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kIndent = 28;

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kMissing:
      return "missing";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kWrong:
      break;
  }
  return "wrong";
}

std::size_t count_of(const std::vector<DoctorSection>& sections, Verdict verdict) {
  std::size_t count = 0;
  for (const DoctorSection& section : sections)
    count += static_cast<std::size_t>(std::ranges::count(section.findings, verdict, &Finding::verdict));
  return count;
}

/// The text in lines behind `line`, which has kIndent columns; a word that is too long for any is cut in two.
std::string wrapped(std::string line, const std::string& text) {
  std::string lines;
  for (std::string word : split(one_line(printable(text)), " ")) {
    while (true) {
      const std::string gap = line.size() > kIndent ? " " : "";
      const std::size_t room = kColumns - std::min(kColumns, display_width(line) + gap.size());
      const bool fits = display_width(word) <= room;
      const std::string part = fits ? word : gap.empty() ? fit_to_width(word, room) : "";
      if (!part.empty()) line += gap + part;
      if (fits) break;
      word.erase(0, part.size());
      lines += line + "\n";
      line = std::string(kIndent, ' ');
    }
  }
  return lines + line + "\n";
}

}  // namespace

std::string report_text(const std::vector<DoctorSection>& sections) {
  std::string text = format("levin doctor: {} wrong, {}", count_of(sections, Verdict::kWrong),
                            counted(count_of(sections, Verdict::kWarning), "warning"));
  if (const std::size_t missing = count_of(sections, Verdict::kMissing); missing > 0)
    text += format("; {} missing, which only some need", missing);
  text += '\n';
  for (const DoctorSection& section : sections) {
    text += format("\n{}\n", section.title);
    for (const auto& [what, value, verdict, advice] : section.findings) {
      const std::string head = format("  {:<9}{:<17}", verdict_name(verdict), what);
      text += wrapped(head, value);
      if (verdict != Verdict::kOk && !advice.empty()) text += wrapped(std::string(kIndent, ' '), advice);
    }
  }
  return text;
}

Value report_value(const std::vector<DoctorSection>& sections) {
  Value::List written;
  for (const DoctorSection& section : sections) {
    Value::List findings;
    for (const auto& [what, value, verdict, advice] : section.findings)
      findings.push_back(Value::Map{{"what", what}, {"value", value}, {"verdict", verdict_name(verdict)}, {"advice", advice}});
    written.push_back(Value::Map{{"title", section.title}, {"findings", std::move(findings)}});
  }
  return Value::Map{{"wrong", static_cast<std::int64_t>(count_of(sections, Verdict::kWrong))},
                    {"warnings", static_cast<std::int64_t>(count_of(sections, Verdict::kWarning))},
                    {"missing", static_cast<std::int64_t>(count_of(sections, Verdict::kMissing))},
                    {"sections", std::move(written)}};
}

int report_status(const std::vector<DoctorSection>& sections) { return count_of(sections, Verdict::kWrong) > 0 ? 1 : 0; }

Findings run_with_timeout(double seconds, const std::string& what, std::function<Findings()> look) {
  auto task = std::make_shared<std::packaged_task<Findings()>>(std::move(look));
  std::future<Findings> found = task->get_future();
  quiet_thread([task] { (*task)(); }).detach();
  if (found.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::timeout)
    return {{what, format("no answer within {:.0f} s", seconds), Verdict::kWrong, "programs that use it wait as long"}};
  try {
    return found.get();
  } catch (const std::exception& error) {
    return {{what, error_text(error), Verdict::kWrong}};
  }
}

}  // namespace levin::cli
