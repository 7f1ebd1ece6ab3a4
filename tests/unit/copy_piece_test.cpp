// node/copy_piece: both ends are checked before and after the bytes are moved.
#include "node/copy_piece.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>

namespace ocm::node {
namespace {

using fabric::ServedExtent;

class CopyPieces : public testing::Test, public fabric::ExtentDirectory {
 protected:
  static constexpr uint64_t kBytes = 64;
  struct End {
    std::array<std::byte, kBytes> bytes{};
    std::atomic<uint64_t> lease_until_ns{1000};
    std::shared_ptr<ServedExtent> extent = std::make_shared<ServedExtent>();
  };

  void SetUp() override {
    job.target = {GlobalAddress(1), 1};
    job.source = {GlobalAddress(2), 1};
    job.source_is_here = true;
    job.bytes = kBytes;
    for (const ExtentId& id : {job.target, job.source}) {
      End& end = ends[id];
      end.extent->data = end.bytes.data();
      end.extent->bytes = kBytes;
      end.extent->lease_until_ns = &end.lease_until_ns;
    }
  }
  Result<std::shared_ptr<ServedExtent>> open(ExtentId id) override { return ends.at(id).extent; }
  std::array<std::byte, 32> session_key(const SessionId&) override { return {}; }

  /// What end() gives after `meanwhile`; what begin() gives if that is an error.
  Status copy(const std::function<void()>& meanwhile = [] {}) {
    auto piece = CopyPiece::begin(*this, job, kBytes, [this] { return now_ns; });
    if (!piece.is_ok()) return piece.status();
    meanwhile();
    return piece.value().end(job, [this] { return now_ns; });
  }

  CopyJob job;
  std::map<ExtentId, End> ends;
  uint64_t now_ns = 10;
};

TEST_F(CopyPieces, AreGoodWhileBothLeasesLast) {
  EXPECT_TRUE(copy([this] { now_ns = 999; }).is_ok());
  EXPECT_EQ(job.moved, kBytes);
}

TEST_F(CopyPieces, AreLostIfALeaseHasEndedBeforeOrMeanwhile) {
  for (const ExtentId& id : {job.target, job.source}) {
    std::atomic<uint64_t>& lease = ends.at(id).lease_until_ns;
    job.moved = 0;
    EXPECT_EQ(copy([&] { lease = 5; }).code(), Code::kPeerLost) << id.address.bits();
    job.moved = 0;
    EXPECT_EQ(copy().code(), Code::kPeerLost) << id.address.bits();
    lease = 1000;
  }
  EXPECT_EQ(copy([this] { now_ns = 1000; }).code(), Code::kPeerLost);
}

TEST_F(CopyPieces, AreRevokedIfAnEndWasMeanwhile) {
  for (const ExtentId& id : {job.target, job.source}) {
    ServedExtent& extent = *ends.at(id).extent;
    job.moved = 0;
    EXPECT_EQ(copy([&] { extent.revoked = true; }).code(), Code::kRevoked) << id.address.bits();
    job.moved = 0;
    EXPECT_EQ(copy().code(), Code::kRevoked) << id.address.bits();
    extent.revoked = false;
  }
}

}  // namespace
}  // namespace ocm::node
