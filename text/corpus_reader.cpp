#include "levin/text/corpus_reader.h"

#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/read_file.h"
#include "levin/text/utf8.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

bool has_lines_of_json(const fs::path& path) {
  const fs::path ending = without_compression_ending(path).extension();
  return ending == ".jsonl" || ending == ".ndjson";
}

/// By its byte-order mark, which no text in UTF-8 begins with.
void refuse_utf16(const fs::path& path, std::string_view begin) {
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff"))
    throw IoError(format("{}: is text in UTF-16: save it as UTF-8", path));
}

constexpr std::size_t kLongestLine = std::size_t{1} << 30U;

}  // namespace

std::optional<Document> CorpusReader::next() {
  while (file_ < files_.size()) {
    const fs::path& path = files_[file_];
    if (json_field_.empty() && !has_lines_of_json(path)) {
      ++file_;
      return whole_file(path);
    }
    if (std::optional<Document> document = next_line(path)) return document;
    ++file_;
  }
  return std::nullopt;
}

Document CorpusReader::whole_file(const fs::path& path) {
  InputFile file(path, kMaxExpansion, Pipes::kRead);
  Document document{.text = {}, .place = path.string()};
  try {
    document.text.reserve(file.size_on_disk());
    while (file.append_piece_to(document.text)) {
    }
  } catch (const std::bad_alloc&) {
    throw IoError(format("{}: cannot be read: there is not enough memory for it: divide it, or write JSON lines", path));
  }
  refuse_utf16(path, document.text);
  bytes_ += std::ssize(document.text);
  return document;
}

std::optional<Document> CorpusReader::next_line(const fs::path& path) {
  if (!lines_) {
    lines_ = std::make_unique<InputFile>(path, kMaxExpansion, Pipes::kRead);
    line_ = 0;
  }
  while (true) {
    std::string line;
    int byte = lines_->sbumpc();
    if (byte == InputFile::traits_type::eof()) break;
    for (; byte != InputFile::traits_type::eof() && byte != '\n'; byte = lines_->sbumpc()) {
      line += static_cast<char>(byte);
      if (line.size() > kLongestLine) throw IoError(format("{}, line {}: is longer than 1 GiB", path, line_ + 1));
    }
    if (++line_ == 1) refuse_utf16(path, line);
    bytes_ += std::ssize(line) + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Document document{.text = {}, .place = format("{}, line {}", path, line_)};
    std::string valid;
    document.replaced = static_cast<std::int64_t>(append_valid_utf8(valid, line));
    document.text = text_in(valid, document.place);
    return document;
  }
  lines_.reset();
  return std::nullopt;
}

std::string CorpusReader::text_in(const std::string& line, const std::string& place) const {
  const std::string field = json_field_.empty() ? "text" : json_field_;
  try {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (object.is_object()) {
      const auto found = object.find(field);
      if (found != object.end() && found->is_string()) return found->get<std::string>();
    }
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view reason = error.what();
    throw IoError(format("{}: is no JSON: {}", place, reason.substr(reason.find(": ") + 2)));
  }
  throw IoError(format("{}: is no JSON object with the text {}", place, quoted_text(field)));
}

}  // namespace levin::detail
