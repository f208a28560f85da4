#pragma once

#include <functional>
#include <ios>
#include <sstream>
#include <string>

#include "levin/core/console/console.h"
#include "levin/core/export.h"

namespace levin {

// What a user's code prints with, in place of std::cout, so that the lines of several ranks do not mix, stand above the
// progress bar, obey `log_level`, go to the `log_file` too, and say whose they are:
//
//     levin::rank_info("read ", files, " files");               // [rank 1] read 12 files
//     levin::rank_zero_info("best val_loss so far: ", best);    // best val_loss so far: 0.25
//
// The parts of a message are put one after another, each as it prints to a std::ostream; tensors do too. Ranks: any subset;
// none of them communicates. Threading: any thread.

namespace detail {

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream text;
  text << std::boolalpha;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
void print_parts(LogLevel level, Speaker speaker, const Parts&... parts) {
  if (Console::instance().shows(level, speaker)) Console::instance().print(level, joined(parts...), speaker);
}

}  // namespace detail

/// A line of this rank, shown when `log_level` is debug.
template <class... Parts>
void rank_debug(const Parts&... parts) {
  detail::print_parts(LogLevel::kDebug, Speaker::kRank, parts...);
}
/// A line of this rank.
template <class... Parts>
void rank_info(const Parts&... parts) {
  detail::print_parts(LogLevel::kInfo, Speaker::kRank, parts...);
}
/// A warning of this rank, on standard error.
template <class... Parts>
void rank_warn(const Parts&... parts) {
  detail::print_parts(LogLevel::kWarning, Speaker::kRank, parts...);
}
/// A warning of whichever rank says it first, on standard error: once in a run, however often and on however many ranks the
/// same text is given. (Once on each host, where ranks are on several; once on each rank where they share no memory.)
template <class... Parts>
void rank_warn_once(const Parts&... parts) {
  Console::instance().warn_once(detail::joined(parts...));
}
/// An error of this rank, on standard error. It does not end the run; throw an exception for that.
template <class... Parts>
void rank_error(const Parts&... parts) {
  detail::print_parts(LogLevel::kError, Speaker::kRank, parts...);
}

/// A line for the whole run: rank 0 prints it, others do nothing. Shown when `log_level` is debug.
template <class... Parts>
void rank_zero_debug(const Parts&... parts) {
  detail::print_parts(LogLevel::kDebug, Speaker::kRun, parts...);
}
/// A line for the whole run: rank 0 prints it, others do nothing.
template <class... Parts>
void rank_zero_info(const Parts&... parts) {
  detail::print_parts(LogLevel::kInfo, Speaker::kRun, parts...);
}
/// A warning for the whole run, on standard error: rank 0 prints it, others do nothing.
template <class... Parts>
void rank_zero_warn(const Parts&... parts) {
  detail::print_parts(LogLevel::kWarning, Speaker::kRun, parts...);
}

/// Calls `function` on rank 0 only; it must not communicate, since the other ranks do not take part.
LEVIN_API void rank_zero_only(const std::function<void()>& function);

}  // namespace levin
