#include "os/memory.h"

#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace ocm::os {

Result<Fd> make_memfd(const char* name, uint64_t bytes, const MemfdOptions& options) {
  OCM_DASSERT(options.numa_node >= -1);
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (options.hugepages) flags |= MFD_HUGETLB;
  Fd fd(::memfd_create(name, flags));
  if (!fd.is_open()) return Status::from_errno(errno, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    if (errno == EFBIG)
      return Status(Code::kNoMemory,
                    "an extent is a file, and longer than `ulimit -f` lets the process make one");
    return Status::from_errno(errno, "ftruncate of a memfd");
  }
  // Born 0777: a holder of a read-only descriptor could open it anew for writing.
  if (::fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0) return Status::from_errno(errno, "fchmod of a memfd");
  // A holder who could seal it against writing would keep the daemon from mapping it, and from giving its
  // pages back.
  const int no_more_seals = options.seal_later ? 0 : F_SEAL_SEAL;
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | no_more_seals) != 0) {
    return Status::from_errno(errno, "sealing a memfd");
  }
  if (options.numa_node >= 0) {
    // The policy is the inode's (shared policy), so that first touch by anyone lands there.
    OCM_TRY_ASSIGN(Mapping mapping, Mapping::map(fd.get(), bytes, true));
    if (options.numa_node >= 64) return Status(Code::kInvalidArgument, "numa_node is above 63");
    const unsigned long mask = 1ul << options.numa_node;
    if (::mbind(mapping.data(), bytes, MPOL_BIND, &mask, 65, 0) != 0) {
      return Status::from_errno(errno, "mbind to NUMA node " + std::to_string(options.numa_node));
    }
  }
  if (options.populate && !options.hugepages && shared_huge_pages() == "advise") {
    // fallocate() has no mapping that asks for huge pages; it takes what is missing afterwards.
    OCM_TRY_ASSIGN(Mapping mapping, Mapping::map(fd.get(), bytes, true));
    mapping.prefer_huge_pages();
    (void)::madvise(mapping.data(), bytes, MADV_POPULATE_WRITE);
  }
  if (options.populate && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return Status::from_errno(errno == ENOSPC ? ENOMEM : errno, "populating a memfd");
  }
  return fd;
}

std::string shared_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string line;
  std::getline(file, line);
  const size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos || end < begin
             ? std::string()
             : line.substr(begin + 1, end - begin - 1);
}

Status seal_writes(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    return Status::from_errno(errno, "sealing a memfd");
  return {};
}

bool discard(int fd, uint64_t offset, uint64_t bytes) {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) == 0;
}

Result<Fd> reopen_read_only(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Fd copy(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!copy.is_open()) return Status::from_errno(errno, "reopening a memfd for reading");
  return copy;
}

Result<Mapping> Mapping::map(int fd, uint64_t bytes, bool writable) {
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  // st_blksize of a memfd is its page size.
  struct stat file {};
  if (::fstat(fd, &file) != 0) return Status::from_errno(errno, "fstat of an extent");
  const uint64_t page_bytes = file.st_blksize > 0 ? static_cast<uint64_t>(file.st_blksize) : 1;
  const uint64_t tail = bytes % page_bytes;
  const uint64_t mapped_bytes = tail == 0 ? bytes : bytes + (page_bytes - tail);
  void* data = ::mmap(nullptr, mapped_bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    if (errno == EACCES) return Status(Code::kPermission, "the extent is attached read-only");
    return Status::from_errno(errno, "mmap of an extent");
  }
  return Mapping(static_cast<std::byte*>(data), bytes, mapped_bytes);
}

Result<Mapping> Mapping::anonymous(uint64_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Status::from_errno(errno, "mmap");
  return Mapping(static_cast<std::byte*>(data), bytes, bytes);
}

void Mapping::prefer_huge_pages() {
  OCM_DASSERT(is_mapped());
  (void)::madvise(data_, mapped_bytes_, MADV_HUGEPAGE);
}

void Mapping::refuse_huge_pages() const { (void)::madvise(data_, mapped_bytes_, MADV_NOHUGEPAGE); }

void Mapping::keep_from_core_dumps() {
  OCM_DASSERT(is_mapped());
  (void)::madvise(data_, mapped_bytes_, MADV_DONTDUMP);
}

Mapping::~Mapping() {
  OCM_DASSERT(is_mapped() == (mapped_bytes_ != 0));  // also after a move: both, or neither
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

}  // namespace ocm::os
