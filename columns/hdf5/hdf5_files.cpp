#include "levin/columns/hdf5/hdf5_files.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::hdf5 {
namespace {

/// Debian's library takes one call at a time.
std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// An object of the library's, which `close` gives back.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// What the library says of its last error: its innermost reason.
std::string last_error() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* text) -> herr_t {
        auto& first = *static_cast<std::string*>(text);
        if (first.empty() && error->desc != nullptr) first = error->desc;
        return 0;
      },
      &reason);
  return reason.empty() ? "it is damaged" : reason;
}

Handle opened(Handle handle) {
  if (!handle) throw std::runtime_error(last_error());
  return handle;
}
void check(herr_t status) {
  if (status < 0) throw std::runtime_error(last_error());
}

/// NumPy's truth values: an enumeration of FALSE and TRUE, of a byte.
bool is_truth(hid_t type) { return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2; }

/// A pair of floats, as h5py stores them.
bool is_complex(hid_t type) {
  return H5Tget_class(type) == H5T_COMPOUND && H5Tget_nmembers(type) == 2 && H5Tget_member_index(type, "r") == 0 &&
         H5Tget_member_index(type, "i") == 1;
}

/// What elements are that are not read as numbers.
std::string content_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      return "texts";
    case H5T_COMPOUND:
      return is_complex(type) ? "complex numbers" : "records of several fields";
    case H5T_VLEN:
      return "lists of different lengths";
    case H5T_ARRAY:
      return "arrays of arrays";
    case H5T_ENUM:
      return "names of an enumeration";
    case H5T_REFERENCE:
      return "references to other arrays";
    case H5T_INTEGER:
    case H5T_FLOAT:
      return format("numbers of {} bytes", H5Tget_size(type));
    default:
      return "bytes without a meaning";
  }
}

/// Kind and bytes of elements as they are read.
void describe(hid_t type, Hdf5Array& array) {
  const std::size_t stored = H5Tget_size(type);
  const bool has_usual_size = stored == 1 || stored == 2 || stored == 4 || stored == 8;
  array.kind = 0;
  array.content = content_of(type);
  array.bytes = static_cast<std::int64_t>(stored);
  if (!has_usual_size) return;
  if (is_truth(type)) {
    array.kind = 'b';
  } else if (H5Tget_class(type) == H5T_FLOAT && stored > 1) {
    array.kind = 'f';
  } else if (H5Tget_class(type) == H5T_INTEGER) {
    const bool has_sign = H5Tget_sign(type) != H5T_SGN_NONE;
    array.kind = has_sign || stored > 1 ? 'i' : 'u';
    if (!has_sign && (stored == 2 || stored == 4)) array.bytes *= 2;
  }
}

/// The type in memory of an element.
Handle type_in_memory(const Hdf5Array& array) {
  if (array.kind == 'f' && array.bytes == 2) {
    Handle half(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    check(H5Tset_fields(half.get(), 15, 10, 5, 0, 10));
    check(H5Tset_size(half.get(), 2));
    check(H5Tset_ebias(half.get(), 15));
    return half;
  }
  hid_t type = H5T_NATIVE_UINT8;
  if (array.kind == 'f') {
    type = array.bytes == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  } else if (array.kind == 'i' || array.kind == 'b') {
    type = array.bytes == 1   ? H5T_NATIVE_INT8
           : array.bytes == 2 ? H5T_NATIVE_INT16
           : array.bytes == 4 ? H5T_NATIVE_INT32
                              : H5T_NATIVE_INT64;
  }
  return opened(Handle(H5Tcopy(type), H5Tclose));
}

/// How values are converted: one that does not fit ends the reading, where the library would cut it off, and is noted.
Handle exact_transfer(bool& is_out_of_range) {
  Handle transfer = opened(Handle(H5Pcreate(H5P_DATASET_XFER), H5Pclose));
  const auto on_exception = [](H5T_conv_except_t what, hid_t, hid_t, void*, void*, void* noted) {
    if (what != H5T_CONV_EXCEPT_RANGE_HI && what != H5T_CONV_EXCEPT_RANGE_LOW) return H5T_CONV_UNHANDLED;
    *static_cast<bool*>(noted) = true;
    return H5T_CONV_ABORT;
  };
  check(H5Pset_type_conv_cb(transfer.get(), on_exception, &is_out_of_range));
  return transfer;
}

/// "'lzf' (32000)", of a filter that the array was written with and the library lacks; "" where it has all.
std::string missing_filter(hid_t dataset) {
  const Handle plan(H5Dget_create_plist(dataset), H5Pclose);
  const int filters = plan ? H5Pget_nfilters(plan.get()) : 0;
  for (int place = 0; place < filters; ++place) {
    std::array<char, 64> name{};
    std::size_t values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter = H5Pget_filter2(plan.get(), static_cast<unsigned>(place), &flags, &values, nullptr,
                                               name.size() - 1, name.data(), nullptr);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    const std::string number = format("{}", static_cast<int>(filter));
    return name[0] == '\0' ? number : format("{} ({})", quoted_text(name.data(), 40), number);
  }
  return "";
}

/// Called: when a reading failed.
std::string why_not_read(hid_t dataset, const Hdf5Array& array, bool is_out_of_range) {
  const std::string reason = last_error();
  const std::string name = quoted_text(array.path, 60);
  if (is_out_of_range) {
    return array.kind == 'i' && array.bytes == 8
               ? format(
                     "{} has integers of 2^63 or more, which 64-bit integers with a sign do not hold: write it as floats, or "
                     "leave them out",
                     name)
               : format("{} has numbers that its type does not hold", name);
  }
  if (const std::string filter = missing_filter(dataset); !filter.empty()) {
    return format(
        "{} was written with the filter {}, which HDF5 lacks here: install its plugin (Debian: hdf5-plugin-lzf, "
        "hdf5-filter-plugin; HDF5_PLUGIN_PATH names the folder of others), or compress it with gzip: h5repack -f GZIP=4",
        name, filter);
  }
  return reason;
}

class File final : public Hdf5File {
 public:
  explicit File(Handle file) : file_(std::move(file)) { add("/"); }
  ~File() override {
    const std::lock_guard lock(library_mutex());
    datasets_.clear();
    file_ = Handle(-1, H5Fclose);
  }
  const std::vector<Hdf5Array>& arrays() const override { return arrays_; }

  void read(std::size_t number, std::span<const std::int64_t> rows, std::byte* to) const override {
    const std::lock_guard lock(library_mutex());
    const Hdf5Array& array = arrays_.at(number);
    const hid_t dataset = datasets_.at(number).get();
    const Handle space = opened(Handle(H5Dget_space(dataset), H5Sclose));
    std::vector<hsize_t> first(array.shape.size()), count(array.shape.begin(), array.shape.end());
    std::int64_t row_bytes = array.bytes;
    for (std::size_t side = 1; side < array.shape.size(); ++side) row_bytes *= array.shape[side];
    if (row_bytes == 0) return;
    bool is_out_of_range = false;
    const Handle type = type_in_memory(array), transfer = exact_transfer(is_out_of_range);
    // Rows that follow one another are read at once.
    for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      for (end = begin + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
      first[0] = static_cast<hsize_t>(rows[begin]);
      count[0] = end - begin;
      check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
      const Handle memory = opened(Handle(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose));
      if (H5Dread(dataset, type.get(), memory.get(), space.get(), transfer.get(), to) < 0)
        throw std::runtime_error(why_not_read(dataset, array, is_out_of_range));
      to += row_bytes * static_cast<std::int64_t>(end - begin);
    }
  }

 private:
  /// Groups may contain one another, and be listed as often as paths lead to them.
  static constexpr int kMostLinks = 100'000;

  void list(const std::string& folder) {
    std::vector<std::string> names;
    const Handle group = opened(Handle(H5Gopen2(file_.get(), folder.c_str(), H5P_DEFAULT), H5Gclose));
    hsize_t place = 0;
    check(H5Literate(
        group.get(), H5_INDEX_NAME, H5_ITER_INC, &place,
        [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
          static_cast<std::vector<std::string>*>(all)->emplace_back(name);
          return 0;
        },
        &names));
    for (const std::string& name : names) add(folder == "/" ? format("/{}", name) : format("{}/{}", folder, name));
  }

  void add(const std::string& path) {
    H5O_info_t info;
    // A link that leads nowhere.
    if (H5Oget_info_by_name2(file_.get(), path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return;
    if (++links_ > kMostLinks) throw std::runtime_error(format("it has more than {} groups and arrays", kMostLinks));
    if (info.type == H5O_TYPE_GROUP) {
      // One that contains itself.
      const std::pair place(info.fileno, info.addr);
      if (std::ranges::find(within_, place) != within_.end()) return;
      within_.push_back(place);
      list(path);
      within_.pop_back();
      return;
    }
    if (info.type != H5O_TYPE_DATASET) return;
    Handle dataset = opened(Handle(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose));
    const Handle type = opened(Handle(H5Dget_type(dataset.get()), H5Tclose));
    const Handle space = opened(Handle(H5Dget_space(dataset.get()), H5Sclose));
    const int sides = H5Sget_simple_extent_ndims(space.get());
    check(sides);
    std::vector<hsize_t> sizes(static_cast<std::size_t>(sides));
    check(H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr));
    Hdf5Array array{.path = path};
    describe(type.get(), array);
    std::int64_t all = std::max<std::int64_t>(array.bytes, 1);
    for (const hsize_t size : sizes) {
      array.shape.push_back(static_cast<std::int64_t>(size));
      if (array.shape.back() < 0 || (size != 0 && __builtin_mul_overflow(all, array.shape.back(), &all)))
        throw std::runtime_error(format("the shape of {} is absurd", path));
    }
    arrays_.push_back(std::move(array));
    datasets_.push_back(std::move(dataset));
  }

  Handle file_;
  int links_ = 0;
  std::vector<std::pair<unsigned long, haddr_t>> within_;  ///< the groups on the way to the present one
  std::vector<Hdf5Array> arrays_;
  std::vector<Handle> datasets_;
};

void begin_to_use_library() {
  // It would print what is thrown.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::unique_ptr<Hdf5File> open(const std::string& path) {
  const std::lock_guard lock(library_mutex());
  begin_to_use_library();
  const Handle access = opened(Handle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose));
  // File systems of clusters have no locks, and nothing is written.
  check(H5Pset_file_locking(access.get(), false, true));
  constexpr std::size_t kChunks = 12421, kBytesOfChunks = 64 << 20;
  check(H5Pset_cache(access.get(), 0, kChunks, kBytesOfChunks, 0.75));
  return std::make_unique<File>(opened(Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose)));
}

std::unique_ptr<Hdf5File> open_memory(std::span<const std::byte> file) {
  const std::lock_guard lock(library_mutex());
  begin_to_use_library();
  const Handle access = opened(Handle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose));
  check(H5Pset_fapl_core(access.get(), 1 << 16, false));
  std::vector<std::byte> copy(file.begin(), file.end());
  check(H5Pset_file_image(access.get(), copy.data(), copy.size()));
  return std::make_unique<File>(opened(Handle(H5Fopen("memory.h5", H5F_ACC_RDONLY, access.get()), H5Fclose)));
}

constexpr Hdf5Files kFiles = {.open = open, .open_memory = open_memory};

}  // namespace
}  // namespace levin::hdf5

extern "C" const levin::Hdf5Files* levin_hdf5_files() { return &levin::hdf5::kFiles; }
