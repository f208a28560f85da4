#include "levin/loggers/wandb/record_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/file_bytes.h"

namespace levin::wandb {
namespace {

namespace fs = std::filesystem;

/// ":W&B", the number 0xBEE1, and version 0.
constexpr std::string_view kFileHeader("\x3a\x57\x26\x42\xe1\xbe\x00", 7);
constexpr std::int64_t kBlock = 32 * 1024;
/// A chunk's header: the CRC, the length, and which part of the record it is.
constexpr std::int64_t kChunkHeader = 7;

enum Part : char { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

std::uint32_t crc_of(char part, std::string_view bytes) {
  const auto* const first = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<std::uint32_t>(
      crc32(crc32(0, reinterpret_cast<const Bytef*>(&part), 1), first, static_cast<uInt>(bytes.size())));
}

void append_little_endian(std::string& text, std::uint32_t number, int bytes) {
  for (int byte = 0; byte < bytes; ++byte) text += static_cast<char>(number >> (8 * byte) & 0xffU);
}

std::uint32_t little_endian(std::string_view text) {
  std::uint32_t number = 0;
  for (std::size_t byte = 0; byte < text.size(); ++byte)
    number |= std::uint32_t{static_cast<unsigned char>(text[byte])} << (8 * byte);
  return number;
}

/// How many bytes are between this offset and the next chunk: a chunk's header is not divided between blocks.
std::int64_t gap_at(std::int64_t offset) {
  const std::int64_t left = kBlock - offset % kBlock;
  return left < kChunkHeader ? left : 0;
}

}  // namespace

std::string framed(std::string_view record, std::int64_t offset) {
  std::string text;
  bool is_first = true;
  do {
    const std::int64_t gap = gap_at(offset + std::ssize(text));
    text.append(static_cast<std::size_t>(gap), '\0');
    const std::int64_t left = kBlock - (offset + std::ssize(text)) % kBlock - kChunkHeader;
    const std::string_view bytes = record.substr(0, static_cast<std::size_t>(left));
    record.remove_prefix(bytes.size());
    const char part = is_first ? (record.empty() ? kWhole : kFirst) : (record.empty() ? kLast : kMiddle);
    append_little_endian(text, crc_of(part, bytes), 4);
    append_little_endian(text, static_cast<std::uint32_t>(bytes.size()), 2);
    text += part;
    text += bytes;
    is_first = false;
  } while (!record.empty());
  return text;
}

RecordFile::RecordFile(const fs::path& path) : file_(OutputFile::make(path)) {
  file_.write_at(0, kFileHeader);
  size_ = std::ssize(kFileHeader);
}

void RecordFile::add(std::string_view record) {
  // In offset, so that a part that was written before the disk was full is written again.
  const std::string chunks = framed(record, size_);
  file_.write_at(size_, chunks);
  size_ += std::ssize(chunks);
}

RecordReader::RecordReader(const fs::path& path) : stream_(open_plain_stream(path)) {
  std::string header(kFileHeader.size(), '\0');
  if (!stream_) throw IoError(format("WandbLogger: cannot read {}: {}", path, why_not_opened(errno)));
  stream_.read(header.data(), std::ssize(header));
  if (header != kFileHeader) stream_.setstate(std::ios::failbit);
  offset_ = std::ssize(header);
}

bool RecordReader::next(std::string& record) {
  record.clear();
  bool has_begun = false;  // a first part may have no bytes
  while (true) {
    const std::int64_t gap = gap_at(offset_);
    std::string header(kChunkHeader, '\0');
    if (!stream_.ignore(gap) || !stream_.read(header.data(), kChunkHeader)) return false;
    const char part = header[6];
    std::string bytes(little_endian(std::string_view(header).substr(4, 2)), '\0');
    if (!stream_.read(bytes.data(), std::ssize(bytes))) return false;
    offset_ += gap + kChunkHeader + std::ssize(bytes);
    const bool begins = part == kWhole || part == kFirst;
    const bool fits = part >= kWhole && part <= kLast && begins != has_begun;
    if (!fits || crc_of(part, bytes) != little_endian(std::string_view(header).substr(0, 4))) {
      stream_.setstate(std::ios::failbit);
      return false;
    }
    record += bytes;
    has_begun = true;
    if (part == kWhole || part == kLast) return true;
  }
}

}  // namespace levin::wandb
