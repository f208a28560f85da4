#pragma once

#include <string>
#include <string_view>

namespace levin::unicode {

/// A regular expression of Oniguruma, in which files of tokenizers have theirs, in PCRE2's syntax. What differs: \s, \d, \w, \b
/// and \h; names of properties, and scripts, which in PCRE2 are those of a character's extensions; (?m); {,3}; and {1,3}+,
/// which PCRE2 takes for possessive. Throws std::runtime_error for what PCRE2 lacks, as sets in sets.
std::string in_pcre2_syntax(std::string_view pattern);

}  // namespace levin::unicode
