#pragma once

#include "levin/text/unicode/unicode_library.h"

namespace levin::unicode {

// utf8proc
std::uint8_t classes(char32_t character);
char32_t lowercase(char32_t character);
bool divides(char32_t before, char32_t after, std::int32_t* state);
void normalize(std::string_view text, NormalForm form, std::string& result);

// PCRE2
void* compile(std::string_view pattern);
void release(void* pattern);
void* make_matcher();
void release_matcher(void* matcher);
bool find(const void* pattern, void* matcher, std::string_view text, std::size_t from, PatternMatch& match);

}  // namespace levin::unicode
