#include "levin/data/npz_file.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/formats/zip_archive.h"
#include "levin/data/npy_bytes.h"

namespace levin {

struct NpzFile::Archive {
  std::string name;
  double max_expansion;
  std::shared_ptr<const void> owner;
  std::span<char> bytes;
  std::optional<ZipArchive> zip = {};
  std::vector<std::string> names = {};

  [[noreturn]] void fail(const std::string& reason) const {
    throw IoError(format("{}: not a good .npz file: {}", name, reason));
  }
  void list();
  at::Tensor array_of(const ZipEntry& entry) const;
  std::shared_ptr<std::string> inflated(const ZipEntry& entry) const;
};

namespace {

constexpr std::string_view kNpyEnding = ".npy";

/// The state of zlib's reader of bytes without a header.
struct Inflation {
  z_stream stream{};
  bool is_ready = false;

  Inflation() { is_ready = inflateInit2(&stream, -MAX_WBITS) == Z_OK; }
  ~Inflation() {
    if (is_ready) inflateEnd(&stream);
  }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
};

}  // namespace

void NpzFile::Archive::list() {
  try {
    zip.emplace(std::string_view(bytes.data(), bytes.size()));
  } catch (const IoError& error) {
    fail(error.what());
  }
  for (const ZipEntry& entry : zip->entries())
    if (entry.name.ends_with(kNpyEnding)) names.push_back(entry.name.substr(0, entry.name.size() - kNpyEnding.size()));
  if (names.empty()) fail("there is no array in it");
}

/// Grows with what there really is: the size that the archive promises may be a lie.
std::shared_ptr<std::string> NpzFile::Archive::inflated(const ZipEntry& entry) const {
  constexpr std::size_t kPiece = 1 << 20, kAlwaysAllowed = 64 << 20;
  const std::string_view packed = zip->packed_bytes(entry);
  const double most = std::max(static_cast<double>(kAlwaysAllowed), max_expansion * static_cast<double>(packed.size()));
  const auto content = std::make_shared<std::string>();
  Inflation inflation;
  z_stream& stream = inflation.stream;
  std::size_t begin = 0;
  for (int status = Z_OK; inflation.is_ready && status != Z_STREAM_END;) {
    if (stream.avail_in == 0 && begin < packed.size()) {
      const std::size_t piece = std::min(packed.size() - begin, kPiece);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + begin));
      stream.avail_in = static_cast<uInt>(piece);
      begin += piece;
    }
    const std::size_t before = content->size();
    content->resize(before + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(content->data() + before);
    stream.avail_out = kPiece;
    status = inflate(&stream, Z_NO_FLUSH);
    content->resize(before + kPiece - stream.avail_out);
    if (static_cast<double>(content->size()) > most) {
      fail(format("{} expands to more than {} times its size: if that is right, raise `max_expansion`",
                  quoted_text(entry.name, 40), max_expansion));
    }
    const bool is_stuck = content->size() == before && stream.avail_in == 0 && begin == packed.size();
    if ((status != Z_OK && status != Z_STREAM_END) || (is_stuck && status != Z_STREAM_END))
      fail(format("the compressed data of {} is damaged", quoted_text(entry.name, 40)));
  }
  if (checksum_of(*content) != entry.crc32)
    fail(format("the checksum of {} is not that of its bytes", quoted_text(entry.name, 40)));
  return content;
}

at::Tensor NpzFile::Archive::array_of(const ZipEntry& entry) const {
  const std::string file = format("{}: {}", name, entry.name);
  if (entry.is_stored) return detail::npy_of(bytes.subspan(entry.offset, entry.size), file, owner);
  if (!entry.is_deflated)
    fail(format("{} is encrypted, or compressed in another way than np.savez_compressed() does", entry.name));
  const auto content = inflated(entry);
  return detail::npy_of(*content, file, content);
}

NpzFile::NpzFile(const std::filesystem::path& path, double max_expansion) {
  const auto file = detail::map_data_file(path);
  auto archive =
      std::unique_ptr<Archive>(new Archive{path.string(), max_expansion, file, std::span(file->data(), file->bytes().size())});
  archive->list();
  archive_ = std::move(archive);
}

NpzFile::NpzFile(std::string bytes, const std::string& name, double max_expansion) {
  const auto owner = std::make_shared<std::string>(std::move(bytes));
  auto archive = std::unique_ptr<Archive>(new Archive{name, max_expansion, owner, std::span<char>(*owner)});
  archive->list();
  archive_ = std::move(archive);
}

NpzFile::~NpzFile() = default;
NpzFile::NpzFile(NpzFile&&) noexcept = default;

const std::vector<std::string>& NpzFile::names() const { return archive_->names; }

at::Tensor NpzFile::read(const std::string& name) const {
  const ZipEntry* const entry = archive_->zip->find(format("{}{}", name, kNpyEnding));
  if (entry == nullptr) {
    throw ConfigError(format("{}: there is no array {} in it; it has {}", archive_->name, quoted_text(name, 40),
                             quoted_list(archive_->names)));
  }
  return archive_->array_of(*entry);
}

}  // namespace levin
