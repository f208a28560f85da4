#include "levin/core/formats/torch_archive.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"

namespace levin {
namespace {

std::string folder_of(const ZipArchive& zip) {
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash != std::string::npos && std::string_view(entry.name).substr(slash + 1) == "data.pkl") {
      return entry.name.substr(0, slash + 1);
    }
  }
  throw IoError("it is a zip archive that torch.save() has not written: there is no data.pkl in it");
}

}  // namespace

void TorchArchive::refuse_program() {
  throw IoError("it is a TorchScript program, not weights: save its state_dict() in Python");
}

TorchArchive::TorchArchive(std::string_view bytes) : zip_(bytes), folder_(folder_of(zip_)) {
  const ZipEntry* const byte_order = entry("byteorder");
  if (byte_order != nullptr && zip_.bytes(*byte_order) != "little") {
    throw IoError("its numbers are big-endian: save it again on a little-endian machine, as nearly all are");
  }
  try {
    pickle_ = std::make_unique<Pickle>(checked_bytes(*entry("data.pkl")));
  } catch (const IoError& error) {
    if (has_sources()) refuse_program();
    throw IoError(format("its data.pkl, which begins at byte {}, cannot be read: {}", entry("data.pkl")->offset, error.what()));
  }
}

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
  if (found == nullptr) throw IoError(format("it has no storage {}", quoted_text(key)));
  const auto end = tensor.end();
  if (!end || static_cast<std::uint64_t>(*end) > found->size / element_size) {
    throw IoError(format("a tensor reaches beyond its storage {}, {} bytes from byte {} on", quoted_text(key), found->size,
                         found->offset));
  }
  return *found;
}

}  // namespace levin
