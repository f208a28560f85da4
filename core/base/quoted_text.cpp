#include "levin/core/base/quoted_text.h"

#include "levin/core/base/utf8.h"

namespace levin {
namespace {

bool is_control(char32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

std::string escaped(unsigned char byte) {
  static constexpr char kDigits[] = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const bool is_break = text[0] == '\n' || text[0] == '\t';
    if (is_break || (length > 0 && !is_control(utf8_code_point(text, length)))) {
      shown += text.substr(0, length);
    } else {
      for (const char byte : text.substr(0, length > 0 ? length : 1)) shown += escaped(static_cast<unsigned char>(byte));
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return shown;
}

std::string quoted_text(std::string_view text, std::size_t longest) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = utf8_length(text.substr(end));
    const std::size_t next = end + (length > 0 ? length : 1);
    if (next > longest) break;
    end = next;
  }
  std::string shown = "'";
  for (const char c : printable(text.substr(0, end))) shown += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  return shown + (end < text.size() ? "…'" : "'");
}

}  // namespace levin
