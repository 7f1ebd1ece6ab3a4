// base/units: a length as somebody typed it.
#include "base/assert.h"
#include "base/units.h"
#include "fuzz.h"

using namespace ocm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = parse_bytes({reinterpret_cast<const char*>(data), size});
  if (bytes.is_ok()) {
    OCM_ASSERT(bytes.value() <= uint64_t{1} << 63);
    OCM_ASSERT(!format_bytes(bytes.value()).empty());
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  return {"64",
          "4KiB",
          "1.5 GiB",
          "2GB",
          "-1",
          "",
          " ",
          "1e9",
          "9223372036854775808",
          "0x10",
          "1.7976931e308TiB",
          "nan",
          "inf",
          "1 K",
          "8EiB",
          "16777216TiB",
          "0.0000001kB"};
}
