#include "levin/data/tar_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <numeric>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/read_file.h"
#include "levin/data/stream_coders.h"

namespace levin {
namespace {

/// The most that a name, or the records of a pax header, may take.
constexpr std::int64_t kMostOfHeader = 1 << 20;
/// The most of a compressed file's bytes that are taken into memory as one entry.
constexpr std::int64_t kMostOfEntry = std::int64_t{4} << 30;

/// Fields of a header: where each begins, and its length.
struct Field {
  std::size_t at, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kSum{148, 8}, kMagic{257, 5}, kPrefix{345, 155};
constexpr std::size_t kType = 156;

std::string_view text_of(std::string_view block, Field field) {
  const std::string_view text = block.substr(field.at, field.length);
  return text.substr(0, text.find('\0'));
}

}  // namespace

SeekableTar::SeekableTar(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  if (descriptor_.number() < 0 || error) throw IoError(format("'{}' cannot be read: {}", name_, std::strerror(errno)));
  if (!is_file) throw IoError(format("'{}' cannot be read: it is not a file", name_));
  size_ = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
}

std::string SeekableTar::read(std::int64_t offset, std::int64_t count) const {
  if (offset < 0 || count < 0 || count > size_ || offset > size_ - count) {
    throw IoError(format("'{}' has {} bytes, and {} from byte {} on are wanted: it was cut off", name_, size_, count, offset));
  }
  std::string bytes(static_cast<std::size_t>(count), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(descriptor_.number(), bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw IoError(format("'{}' cannot be read: {}", name_, got < 0 ? std::strerror(errno) : "it became shorter"));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

TarReader::TarReader(const std::filesystem::path& path) : name_(path.string()) {
  const std::filesystem::path copy = local_copy(path.string());
  auto tar = std::make_shared<const SeekableTar>(copy);
  if (compression_of(copy) == Compression::kNone) {
    seekable_ = std::move(tar);
    return;
  }
  compressed_ = std::make_unique<InputFile>(copy, kMaxExpansion);
  stream_ = std::make_unique<std::istream>(compressed_.get());
  stream_->exceptions(std::ios::badbit);  // passes on what the file throws
}

void TarReader::fail(std::string_view reason) const { throw IoError(format("'{}', byte {}: {}", name_, position_, reason)); }

std::string TarReader::take(std::int64_t count) {
  std::string bytes;
  if (seekable_) {
    if (position_ == seekable_->size()) return bytes;
    if (count > seekable_->size() - position_) fail("the tar file ends too early");
    bytes = seekable_->read(position_, count);
  } else {
    // Memory follows what the file really has.
    constexpr std::int64_t kPiece = 1 << 20;
    while (std::ssize(bytes) < count) {
      const auto before = std::ssize(bytes);
      const std::int64_t piece = std::min(kPiece, count - before);
      bytes.resize(static_cast<std::size_t>(before + piece));
      stream_->read(bytes.data() + before, piece);
      if (stream_->gcount() < piece) {
        if (before == 0 && stream_->gcount() == 0) return {};
        fail("the tar file ends too early");
      }
    }
  }
  position_ += count;
  return bytes;
}

void TarReader::pass(std::int64_t count) {
  if (seekable_) {
    if (count > seekable_->size() - position_) fail("the tar file ends too early");
  } else {
    stream_->ignore(count);
    if (stream_->gcount() < count) fail("the tar file ends too early");
  }
  position_ += count;
}

std::optional<std::string> TarReader::header() {
  std::string block = take(kTarBlock);
  // Two blocks of zeros end the file; some writers leave them out.
  if (block.empty() || std::ranges::all_of(block, [](char byte) { return byte == '\0'; })) return std::nullopt;
  // The sum is of the block with blanks in its place.
  const auto byte = [](std::int64_t sum, char value) { return sum + static_cast<unsigned char>(value); };
  std::int64_t sum = std::accumulate(block.begin(), block.end(), std::int64_t{0}, byte);
  for (std::size_t place = 0; place < kSum.length; ++place) sum += ' ' - static_cast<unsigned char>(block[kSum.at + place]);
  if (number(std::string_view(block).substr(kSum.at, kSum.length)) != sum) fail("this is not the header of a tar file");
  return block;
}

std::int64_t TarReader::number(std::string_view field) const {
  if (!field.empty() && (static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
    // GNU writes large numbers in base 256.
    std::uint64_t value = static_cast<unsigned char>(field[0]) & 0x3fU;
    for (const char byte : field.substr(1)) {
      if (value >> 54U != 0) fail("the header has a number that is too large");
      value = value << 8U | static_cast<unsigned char>(byte);
    }
    return static_cast<std::int64_t>(value);
  }
  const std::size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return 0;
  field.remove_prefix(begin);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (error == std::errc::result_out_of_range || value < 0) fail("the header has a number that is too large");
  return value;
}

void TarReader::read_pax(std::string_view records) {
  // "LENGTH key=value\n", the length being that of all of it.
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 2) fail("a pax header is damaged");
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) fail("a pax header is damaged");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") long_name_ = value;
    if (key == "size") {
      std::int64_t size = -1;
      std::from_chars(value.data(), value.data() + value.size(), size);
      if (size < 0) fail("a pax header is damaged");
      long_size_ = size;
    }
    records.remove_prefix(length);
  }
}

std::optional<TarEntry> TarReader::next() {
  while (true) {
    if (const std::int64_t rest = next_header_ - position_; rest > 0) pass(rest);
    entry_.reset();
    const std::optional<std::string> block = header();
    if (!block && std::exchange(is_described_, false)) fail("the tar file ends too early");
    if (!block) return std::nullopt;
    const char type = (*block)[kType];
    std::int64_t size = number(std::string_view(*block).substr(kSize.at, kSize.length));
    const bool describes_next = type == 'x' || type == 'L' || type == 'g' || type == 'K';
    if (!describes_next && long_size_) size = *long_size_;
    if (size > std::numeric_limits<std::int64_t>::max() - position_ - kTarBlock)
      fail("the header has a number that is too large");
    if (seekable_ && size > seekable_->size() - position_) fail("the tar file ends too early");
    next_header_ = position_ + size + tar_padding(size);
    // The last padding may be missing.
    if (seekable_) next_header_ = std::min(next_header_, seekable_->size());
    if (type == 'x' || type == 'L') {
      if (size > kMostOfHeader) fail("a header is too long");
      is_described_ = true;
      const std::string bytes = take(size);
      type == 'x' ? read_pax(bytes) : void(long_name_ = bytes.substr(0, bytes.find('\0')));
      continue;
    }
    const auto long_name = std::exchange(long_name_, std::nullopt);
    long_size_.reset();
    is_described_ = false;
    if (type != '0' && type != '\0' && type != '7') continue;
    TarEntry entry{.name = long_name.value_or(std::string(text_of(*block, kName))), .offset = position_, .size = size};
    const std::string_view prefix = text_of(*block, kMagic) == "ustar" ? text_of(*block, kPrefix) : std::string_view();
    if (!long_name && !prefix.empty()) entry.name = format("{}/{}", prefix, entry.name);
    entry_ = entry;
    return entry;
  }
}

std::string TarReader::read() {
  if (!entry_ || position_ != entry_->offset) throw MisuseError("TarReader::read(): call next() first, and this once");
  if (entry_->size == 0) return {};
  if (!seekable_ && entry_->size > kMostOfEntry)
    fail(format("'{}' has {} bytes, which is too much", entry_->name, entry_->size));
  std::string bytes = take(entry_->size);
  if (std::ssize(bytes) < entry_->size) fail("the tar file ends too early");
  return bytes;
}

std::string tar_header(const std::string& name, std::int64_t size) {
  const auto block_of = [](const std::string& own_name, std::int64_t own_size, char type) {
    std::string block(kTarBlock, '\0');
    own_name.copy(block.data(), kName.length);
    const auto put = [&](std::size_t at, const std::string& text) { text.copy(block.data() + at, text.size()); };
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(kSize.at, format("{:011o}", own_size));
    put(136, "00000000000");
    put(kSum.at, "        ");
    block[kType] = type;
    put(kMagic.at, std::string("ustar\00000", 8));
    std::int64_t sum = 0;
    for (const char byte : block) sum += static_cast<unsigned char>(byte);
    put(kSum.at, format("{:06o}", sum) + std::string("\0 ", 2));
    return block;
  };
  constexpr std::int64_t kLargestOctal = 077777777777;
  std::string records;
  const auto add = [&](const std::string& text) {
    // The length counts its own digits.
    std::size_t length = text.size() + 2;
    while (std::to_string(length).size() + text.size() + 2 != length) length = std::to_string(length).size() + text.size() + 2;
    records += format("{} {}\n", length, text);
  };
  if (name.size() > kName.length) add("path=" + name);
  if (size > kLargestOctal) add(format("size={}", size));
  std::string header;
  if (!records.empty()) {
    const auto count = static_cast<std::int64_t>(records.size());
    header = block_of("././@PaxHeader", count, 'x') + records + std::string(static_cast<std::size_t>(tar_padding(count)), '\0');
  }
  return header + block_of(name, size > kLargestOctal ? 0 : size, '0');
}

}  // namespace levin
