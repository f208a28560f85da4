#include "levin/core/checkpoint/torch_archive.h"

#include "levin/core/base/format.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/error.h"

namespace levin {
namespace {

constexpr std::string_view kZip = "PK\x03\x04";
/// The pickle of the number with which torch's older files begin.
constexpr std::string_view kBeforeZip("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

std::string_view checked_kind(std::string_view bytes) {
  if (bytes.starts_with(kBeforeZip)) {
    throw IoError(
        "it is in the format of torch before version 1.6, which is not read; convert it in Python: "
        "torch.save(torch.load(FILE), NEW_FILE)");
  }
  return bytes;
}

std::string folder_of(const ZipArchive& zip) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash != std::string::npos && std::string_view(entry.name).substr(slash + 1) == kPickle) {
      return entry.name.substr(0, slash + 1);
    }
  }
  throw IoError("it is a zip archive that torch.save() has not written: there is no data.pkl in it");
}

}  // namespace

TorchArchive::TorchArchive(std::string_view bytes) : zip_(checked_kind(bytes)), folder_(folder_of(zip_)) {
  if (entry("constants.pkl") != nullptr) {
    throw IoError("it is a TorchScript program, not weights: save its state_dict() in Python");
  }
  const ZipEntry* const byte_order = entry("byteorder");
  if (byte_order != nullptr && zip_.bytes(*byte_order) != "little") {
    throw IoError("its numbers are big-endian: save it again on a machine that is little-endian, as nearly all are");
  }
  try {
    pickle_ = std::make_unique<Pickle>(checked_bytes(*entry("data.pkl")));
  } catch (const IoError& error) {
    throw IoError(format("its data.pkl, which begins at byte {}, cannot be read: {}", entry("data.pkl")->offset, error.what()));
  }
}

bool TorchArchive::looks_like_one(std::string_view bytes) { return bytes.starts_with(kZip) || bytes.starts_with(kBeforeZip); }

std::string_view TorchArchive::checked_bytes(const ZipEntry& entry) const {
  if (!zip_.is_whole(entry)) {
    throw IoError(format("its checksum shows that {}, {} bytes from byte {} on, is damaged", quoted_text(entry.name),
                         entry.size, entry.offset));
  }
  return zip_.bytes(entry);
}

const ZipEntry& TorchArchive::storage(const PickleTensor& tensor, std::uint64_t element_size) const {
  const std::string& key = tensor.storage.key;
  const ZipEntry* const found = entry("data/" + key);
  if (found == nullptr) throw IoError(format("there is no storage {} in it", quoted_text(key)));
  const auto end = tensor.end();
  if (!end || static_cast<std::uint64_t>(*end) > found->size / element_size) {
    throw IoError(format("a tensor reaches beyond its storage {}, {} bytes from byte {} on", quoted_text(key), found->size,
                         found->offset));
  }
  return *found;
}

}  // namespace levin
