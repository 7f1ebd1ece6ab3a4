#include "capi/oncillamem/local_buffer.h"

#include <sys/mman.h>

#include <string>

namespace ocm::oncillamem {

Result<LocalBuffer> LocalBuffer::make(uint64_t bytes) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "local_alloc_bytes is 0");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status(Code::kNoMemory,
                  "the operating system refused a local buffer of " + std::to_string(bytes) + " bytes");
  return LocalBuffer(static_cast<std::byte*>(data), bytes);
}

LocalBuffer::~LocalBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace ocm::oncillamem
