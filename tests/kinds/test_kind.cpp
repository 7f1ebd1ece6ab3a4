#include "test_kind.h"

#include <cstring>
#include <new>

#include "base/units.h"

namespace ocm::memory::test {
namespace {

constexpr uint64_t kUnit = 16 * kKiB, kBytesMost = kGiB;

class TestBacking final : public Backing {
 public:
  TestBacking(std::unique_ptr<std::byte[]> data, uint64_t bytes) : data_(std::move(data)), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  Result<std::byte*> data() override { return data_.get(); }
  Result<os::Fd> share(Access) override {
    return Status(Code::kUnsupported, "memory of kind test is its daemon's alone");
  }
  void discard(uint64_t offset, uint64_t bytes) override { std::memset(data_.get() + offset, 0, bytes); }

 private:
  const std::unique_ptr<std::byte[]> data_;
  const uint64_t bytes_;
};

class TestBackend final : public KindBackend {
 public:
  Kind kind() const override { return Kind::kTest; }
  uint64_t page_bytes(const ExtentOptions&) const override { return kUnit; }
  Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions&) override {
    std::unique_ptr<std::byte[]> data;  // a sanitizer's allocator ends the process where another one refuses
    if (bytes <= kBytesMost) data.reset(new (std::nothrow) std::byte[bytes]());
    if (data == nullptr) return Status(Code::kNoMemory, "no " + format_bytes(bytes) + " of kind test");
    return std::unique_ptr<Backing>(std::make_unique<TestBacking>(std::move(data), bytes));
  }
};

constexpr Setting kSettings[] = {
    {kBytes.data(), Setting::Type::kBytes, 0, 0, kBytesMost, false, "bytes of kind test offered"}};

Result<std::unique_ptr<KindBackend>> make(const Settings&, const OfferOptions&) {
  return std::unique_ptr<KindBackend>(std::make_unique<TestBackend>());
}
Status check_machine(const Settings&, std::vector<std::string>&) { return {}; }

}  // namespace

constinit const Entry kEntry{
    .kind = Kind::kTest,
    .traits = {.mapped = false, .replicas = false},
    .settings = kSettings,
    .make = make,
    .check_machine = check_machine,
};

}  // namespace ocm::memory::test
