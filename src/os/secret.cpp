#include "os/secret.h"

#include <algorithm>

namespace ocm::os {

Result<Secret> Secret::copy(std::span<const std::byte> bytes) {
  Secret out;
  OCM_TRY_ASSIGN(out.pages_, Mapping::anonymous(bytes.size()));
  OCM_DASSERT(out.pages_.bytes() == bytes.size());
  out.pages_.keep_from_core_dumps();
  std::copy(bytes.begin(), bytes.end(), out.pages_.data());
  return out;
}

}  // namespace ocm::os
