#include "levin/core/formats/zip_archive.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"

namespace levin {
namespace {

// PKWARE's APPNOTE, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
constexpr std::uint32_t kFile = 0x04034b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kLargeEnd = 0x06064b50;
constexpr std::uint32_t kLargeEndPlace = 0x07064b50;
constexpr std::uint64_t kFileSize = 30;
constexpr std::uint64_t kEntrySize = 46;
constexpr std::uint64_t kEndSize = 22;
constexpr std::uint64_t kLargeEndSize = 56;
constexpr std::uint64_t kLargeEndPlaceSize = 20;
constexpr std::uint64_t kLongestComment = 65535;
constexpr std::uint32_t kInLargeSizes = 0xffffffff;

[[noreturn]] void fail(std::uint64_t offset, const std::string& what) {
  throw IoError(format("it is not a whole zip archive: {} (byte {})", what, offset));
}

/// Where the record is with which every archive ends, but for a comment.
std::uint64_t place_of_end(std::string_view bytes) {
  if (bytes.size() < kEndSize) fail(bytes.size(), "it is truncated");
  const std::uint64_t last = bytes.size() - kEndSize;
  const std::uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
  const std::size_t found = bytes.rfind("PK\x05\x06", last);
  if (found == std::string_view::npos || found < first) fail(bytes.size(), "its end is missing, so it is truncated");
  return found;
}

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes) : bytes_(bytes) {
  static_assert(std::endian::native == std::endian::little);
  const std::uint64_t end = place_of_end(bytes);
  if (number<std::uint32_t>(end, "its end") != kEnd) fail(end, "its end is wrong");
  std::uint64_t count = number<std::uint16_t>(end + 10, "its end");
  std::uint64_t place = number<std::uint32_t>(end + 16, "its end");
  const bool may_be_large = end >= kLargeEndPlaceSize;
  if (may_be_large && number<std::uint32_t>(end - kLargeEndPlaceSize, "its end") == kLargeEndPlace) {
    const auto large_end = number<std::uint64_t>(end - kLargeEndPlaceSize + 8, "its end");
    if (number<std::uint32_t>(large_end, "its end") != kLargeEnd) fail(large_end, "its end is wrong");
    take(large_end, kLargeEndSize, "its end");
    count = number<std::uint64_t>(large_end + 32, "its end");
    place = number<std::uint64_t>(large_end + 48, "its end");
  }
  // Each takes some bytes: a count that is too high ends soon.
  for (std::uint64_t index = 0; index < count; ++index) read_entry(place);
}

std::string_view ZipArchive::take(std::uint64_t offset, std::uint64_t size, const char* what) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) fail(offset, format("{} lies beyond its end", what));
  return bytes_.substr(offset, size);
}

template <class Number>
Number ZipArchive::number(std::uint64_t offset, const char* what) const {
  Number value;
  std::memcpy(&value, take(offset, sizeof value, what).data(), sizeof value);
  return value;
}

void ZipArchive::read_entry(std::uint64_t& place) {
  constexpr const char* kWhat = "its table of contents";
  take(place, kEntrySize, kWhat);
  if (number<std::uint32_t>(place, kWhat) != kEntry) fail(place, "its table of contents is wrong");
  const auto flags = number<std::uint16_t>(place + 8, kWhat);
  const auto method = number<std::uint16_t>(place + 10, kWhat);
  const auto name_size = number<std::uint16_t>(place + 28, kWhat);
  const auto extra_size = number<std::uint16_t>(place + 30, kWhat);
  const auto comment_size = number<std::uint16_t>(place + 32, kWhat);
  ZipEntry entry;
  entry.crc32 = number<std::uint32_t>(place + 16, kWhat);
  std::uint64_t packed_size = number<std::uint32_t>(place + 20, kWhat);
  entry.size = number<std::uint32_t>(place + 24, kWhat);
  std::uint64_t header = number<std::uint32_t>(place + 42, kWhat);
  entry.name = take(place + kEntrySize, name_size, kWhat);
  read_large_sizes(take(place + kEntrySize + name_size, extra_size, kWhat), packed_size, header, entry);
  entry.is_stored = method == 0 && (flags & 1U) == 0 && packed_size == entry.size;
  constexpr std::uint16_t kDeflated = 8;
  entry.is_deflated = method == kDeflated && (flags & 1U) == 0;
  const std::string what = format("the file {} in it", quoted_text(entry.name));
  if (number<std::uint32_t>(header, what.c_str()) != kFile) fail(header, what + " does not begin where it should");
  entry.offset =
      header + kFileSize + number<std::uint16_t>(header + 26, what.c_str()) + number<std::uint16_t>(header + 28, what.c_str());
  take(entry.offset, packed_size, what.c_str());
  entry.packed_size = packed_size;
  // Files that share their bytes would be read, and copied, as often as they are listed.
  listed_bytes_ += packed_size;
  if (listed_bytes_ > bytes_.size()) fail(place, what + " overlaps another one");
  numbers_.emplace(entry.name, entries_.size());
  entries_.push_back(std::move(entry));
  place += kEntrySize + name_size + extra_size + comment_size;
}

void ZipArchive::read_large_sizes(std::string_view extra, std::uint64_t& packed_size, std::uint64_t& header,
                                  ZipEntry& entry) const {
  while (extra.size() >= 4) {
    std::uint16_t kind = 0;
    std::uint16_t size = 0;
    std::memcpy(&kind, extra.data(), sizeof kind);
    std::memcpy(&size, extra.data() + 2, sizeof size);
    std::string_view field = extra.substr(4, size);
    extra.remove_prefix(std::min<std::size_t>(extra.size(), 4U + size));
    if (kind != 1) continue;
    for (std::uint64_t* number : {&entry.size, &packed_size, &header}) {
      if (*number != kInLargeSizes || field.size() < sizeof *number) continue;
      std::memcpy(number, field.data(), sizeof *number);
      field.remove_prefix(sizeof *number);
    }
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = numbers_.find(std::string(name));
  return found == numbers_.end() ? nullptr : &entries_[found->second];
}

std::string_view ZipArchive::bytes(const ZipEntry& entry) const {
  if (!entry.is_stored)
    throw IoError(format("the file {} in it is compressed, which torch never does", quoted_text(entry.name)));
  return bytes_.substr(entry.offset, entry.size);
}

bool ZipArchive::is_whole(const ZipEntry& entry) const {
  return entry.crc32 == 0 || !entry.is_stored || checksum_of(bytes(entry)) == entry.crc32;
}

}  // namespace levin
