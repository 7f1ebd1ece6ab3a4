#include "memory/nvme/offline.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/crc32c.h"
#include "os/crypto.h"

namespace ocm::memory::nvme {
namespace {

/// Where others put what tells that a device is theirs.
struct Signature {
  uint64_t at;
  std::string_view bytes;
  const char* name;
};
using std::string_view_literals::operator""sv;
constexpr Signature kSignatures[] = {
    {1080, "\x53\xEF"sv, "an ext2, ext3 or ext4 file system"},
    {0, "XFSB"sv, "an XFS file system"},
    {65536 + 64, "_BHRfS_M"sv, "a Btrfs file system"},
    {3, "NTFS    "sv, "an NTFS file system"},
    {1024, "\x10\x20\xF5\xF2"sv, "an F2FS file system"},
    {0, "hsqs"sv, "a squashfs file system"},
    {4086, "SWAPSPACE2"sv, "swap space"},
    {0, "LUKS\xBA\xBE"sv, "a LUKS volume"},
    {512, "LABELONE"sv, "a volume of LVM"},
    {4096, "\xFC\x4E\x2B\xA9"sv, "a member of an md RAID"},
    {512, "EFI PART"sv, "a partition table"},
    {4096, "EFI PART"sv, "a partition table"},
    {510, "\x55\xAA"sv, "a partition table or a FAT file system"},
};
constexpr uint64_t kHeadBytes = 128 * kKiB;  // beyond all of them
static_assert(std::all_of(std::begin(kSignatures), std::end(kSignatures),
                          [](const Signature& one) { return one.at + one.bytes.size() <= kHeadBytes; }));
/// Of each end, cleared before a pool is made on a block device: else what was there is found beside it.
constexpr uint64_t kClearedBytes = kMiB;

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      out += "\\u00";
      out += kDigits[byte / 16];
      out += kDigits[byte % 16];
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

std::string configuration_of(const std::string& path, const Geometry& geometry, uint64_t bytes) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).lexically_normal().string();
  std::string out = "[offer.nvme]\npath = " + toml_text(absolute.empty() ? path : absolute) +
                    "\nbytes = " + std::to_string(bytes) + "  # " + format_bytes(bytes) + "\n";
  if (geometry.slot_bytes != kPageBytesDefault)
    out += "page_bytes = " + std::to_string(geometry.slot_bytes) + "\n";
  return out;
}

/// Whole pages, as many as addresses of one partition reach.
uint64_t offered(const MakeOptions& options, const Geometry& geometry) {
  const uint64_t room = geometry.pages() * geometry.slot_bytes;
  const uint64_t most = GlobalAddress::kOffsetMask / geometry.slot_bytes * geometry.slot_bytes;
  OCM_DASSERT(options.bytes <= room);
  return options.bytes != 0 ? options.bytes : std::min(room, most);
}

Result<Made> format(Device& device, const MakeOptions& options) {
  Identity identity;
  while (identity.pool == 0) os::fill_random(std::as_writable_bytes(std::span(&identity.pool, 1)));
  OCM_TRY_ASSIGN(const Geometry geometry, Geometry::of(device.bytes(), options.page_bytes));
  if (options.bytes > geometry.pages() * geometry.slot_bytes) {
    return Status(Code::kNoMemory, options.path + " has room for " +
                                       format_bytes(geometry.pages() * geometry.slot_bytes) +
                                       " of pages, not for " + format_bytes(options.bytes));
  }
  OCM_TRY(Store::format(device, identity, options.page_bytes));
  const uint64_t bytes = offered(options, geometry);
  return Made{identity, geometry, bytes, configuration_of(options.path, geometry, bytes)};
}

/// That a file is there, not only its bytes.
Status flush_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const os::Fd fd(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.is_open() && ::fsync(fd.get()) == 0) return {};
  return errno == EINVAL ? Status() : Status::from_errno(errno, "flushing the directory of the pool " + path);
}

Result<Made> make_file(const MakeOptions& options) {
  if (options.bytes == 0)
    return Status(Code::kInvalidArgument, "how much the pool " + options.path +
                                              " is to hold is missing: give --bytes, such as 100GiB");
  OCM_TRY_ASSIGN(const Geometry geometry, Geometry::for_pages(options.bytes, options.page_bytes));
  OCM_TRY_ASSIGN(const auto device, FileDevice::make(options.path, geometry.device_bytes));
  OCM_DASSERT(device->bytes() == geometry.device_bytes);
  const auto made = [&]() -> Result<Made> {
    OCM_TRY_ASSIGN(Made out, format(*device, options));
    OCM_TRY(flush_directory(options.path));
    return out;
  }();
  if (!made.is_ok()) ::unlink(options.path.c_str());
  return made;
}

Status clear_ends(Device& device) {
  const std::vector<std::byte> zeros(std::min(kClearedBytes, device.bytes()));
  OCM_TRY(device.write(0, zeros));
  return device.write(device.bytes() - zeros.size(), zeros);
}

Result<Made> make_on_device(const MakeOptions& options) {
  OCM_TRY_ASSIGN(const auto device, FileDevice::open(options.path));
  OCM_TRY_ASSIGN(const std::string there, contents_of(*device));
  if (!there.empty() && !options.force) {
    return Status(Code::kExists, "there is " + there + " on " + options.path +
                                     "; if it is not needed any more, --force replaces it with a pool");
  }
  OCM_TRY(Geometry::of(device->bytes(), options.page_bytes).status());
  OCM_TRY(clear_ends(*device));
  return format(*device, options);
}

}  // namespace

Result<Made> make_pool(const MakeOptions& options) {
  if (options.bytes > GlobalAddress::kOffsetMask) {
    return Status(Code::kInvalidArgument, "a pool of " + format_bytes(options.bytes) +
                                              ": one pool's addresses reach less than 1 TiB; make several");
  }
  struct stat there {};
  if (::lstat(options.path.c_str(), &there) != 0)
    return make_file(options);  // which says why, if it cannot be
  if (::stat(options.path.c_str(), &there) == 0 && S_ISBLK(there.st_mode)) return make_on_device(options);
  if (S_ISDIR(there.st_mode))
    return Status(Code::kInvalidArgument, options.path + " is a directory; name a file in it");
  return Status(Code::kExists, options.path + " exists already; name another file, or remove this one");
}

Result<std::string> contents_of(Device& device) {
  const auto found = Store::inspect(device).status();
  if (found.code() == Code::kIo) return found;
  if (found.code() != Code::kNotFound) return std::string("a pool of Oncilla");  // damaged or not
  std::vector<std::byte> head(std::min(kHeadBytes, device.bytes() / kBlockBytes * kBlockBytes));
  OCM_TRY(device.read(0, head));
  for (const Signature& one : kSignatures) {
    if (one.at + one.bytes.size() <= head.size() &&
        std::memcmp(head.data() + one.at, one.bytes.data(), one.bytes.size()) == 0)
      return std::string(one.name);
  }
  return std::string();
}

Result<PagesChecked> check_pages(Device& device, const Inspection& found,
                                 const std::function<Status(uint64_t bytes_done)>& progress) {
  struct Place {
    PageAt at;
    uint64_t page;
    const std::pair<const ExtentId, StoredExtent>* of;
  };
  std::vector<Place> places;
  places.reserve(found.contents.slots_taken());
  for (const auto& one : found.contents.extents()) {
    for (const auto& [page, at] : one.second.pages) places.push_back({at, page, &one});
  }
  OCM_DASSERT(places.size() == found.contents.slots_taken());  // N1
  std::ranges::sort(places, {}, [](const Place& one) { return one.at.slot; });
  const Buffer buffer = make_buffer(found.geometry.slot_bytes);
  if (buffer == nullptr) return Status(Code::kNoMemory, "no memory for a page");
  const std::span<std::byte> bytes(buffer.get(), found.geometry.slot_bytes);
  PagesChecked out;
  for (const Place& place : places) {
    Status status = device.read(found.geometry.slot_at(place.at.slot), bytes);
    if (status.is_ok() && crc32c(0, bytes.data(), bytes.size()) != place.at.crc)
      status = Status(Code::kBadChecksum, "its bytes are not those of its checksum");
    if (!status.is_ok())
      out.bad.push_back({place.of->first, !place.of->second.name.empty(), place.page, status});
    ++out.pages;
    OCM_TRY(progress(out.pages * bytes.size()));
  }
  OCM_DASSERT(out.bad.size() <= out.pages);
  return out;
}

}  // namespace ocm::memory::nvme
