#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>
#include <stdexcept>

#include "levin/text/unicode/regex_syntax.h"
#include "levin/text/unicode/unicode_parts.h"

namespace levin::unicode {
namespace {

struct Pattern {
  pcre2_code* code = nullptr;
  bool is_compiled_to_machine_code = false;
};

struct Matcher {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
};

constexpr std::size_t kFirstStack = 64u << 10;
constexpr std::size_t kLargestStack = 64u << 20;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR characters_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

void* compile(std::string_view pattern) {
  constexpr std::size_t kLongest = 64u << 10;
  if (pattern.size() > kLongest) throw std::runtime_error("the pattern is too long");
  const std::string translated = in_pcre2_syntax(pattern);
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* const code = pcre2_compile(characters_of(translated), translated.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                         &error, &place, context.get());
  if (code == nullptr) throw std::runtime_error(message_of(error));
  return new Pattern{code, pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0};
}

void release(void* pattern) {
  auto* const released = static_cast<Pattern*>(pattern);
  pcre2_code_free(released->code);
  delete released;
}

void* make_matcher() {
  auto matcher = std::make_unique<Matcher>();
  matcher->data = pcre2_match_data_create(1, nullptr);
  matcher->context = pcre2_match_context_create(nullptr);
  matcher->stack = pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr);
  if (matcher->data == nullptr || matcher->context == nullptr) {
    release_matcher(matcher.release());
    throw std::bad_alloc();
  }
  pcre2_jit_stack_assign(matcher->context, nullptr, matcher->stack);
  return matcher.release();
}

void release_matcher(void* matcher) {
  auto* const released = static_cast<Matcher*>(matcher);
  pcre2_match_data_free(released->data);
  pcre2_match_context_free(released->context);
  pcre2_jit_stack_free(released->stack);
  delete released;
}

bool find(const void* pattern, void* matcher, std::string_view text, std::size_t from, PatternMatch& match) {
  const auto* const searched = static_cast<const Pattern*>(pattern);
  auto* const with = static_cast<Matcher*>(matcher);
  const auto run = searched->is_compiled_to_machine_code ? pcre2_jit_match : pcre2_match;
  const int count = run(searched->code, characters_of(text), text.size(), from, PCRE2_NO_UTF_CHECK, with->data, with->context);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) throw std::runtime_error("the search with the pattern failed: " + message_of(count));
  const PCRE2_SIZE* const places = pcre2_get_ovector_pointer(with->data);
  match = {places[0], places[1]};
  return true;
}

}  // namespace levin::unicode
