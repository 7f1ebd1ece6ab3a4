// client/route: which fabric an extent of another node is reached by.
#include "client/route.h"

#include <gtest/gtest.h>

#include "fabric/fake/entry.h"
#include "fabric/registry/registry.h"

namespace ocm::client {
namespace {

ExtentDescriptor on(const char* node, std::initializer_list<Fabric> fabrics) {
  ExtentDescriptor extent;
  extent.node = node;
  for (const Fabric fabric : fabrics) extent.addresses.push_back({fabric, "address", {}});
  return extent;
}

TEST(ChooseFabric, SharedMemoryReachesTheOwnNode) {
  EXPECT_EQ(*choose_fabric(on("n1", {Fabric::kTcp}), "n1", Fabric::kAny, Layout::kSingle), Fabric::kShm);
  EXPECT_FALSE(choose_fabric(on("n2", {Fabric::kTcp}), "n1", Fabric::kShm, Layout::kSingle).is_ok());
}

TEST(ChooseFabric, AnyTakesTheBestWhateverTheOrderOfTheAddresses) {
  const Fabric best =
      fabric::connector_of(*fabric::find_entry(Fabric::kUcx), {}) != nullptr ? Fabric::kUcx : Fabric::kTcp;
  for (const auto& extent :
       {on("n2", {Fabric::kTcp, Fabric::kUcx}), on("n2", {Fabric::kUcx, Fabric::kTcp})}) {
    EXPECT_EQ(*choose_fabric(extent, "n1", Fabric::kAny, Layout::kSingle), best);
  }
}

TEST(ChooseFabric, ReplicasAreNotReachedByUcxUnlessAskedFor) {
  const auto extent = on("n2", {Fabric::kUcx, Fabric::kTcp});
  EXPECT_EQ(*choose_fabric(extent, "n1", Fabric::kAny, Layout::kReplicated), Fabric::kTcp);
}

TEST(ChooseFabric, ANamedFabricIsThatOrNone) {
  const auto extent = on("n2", {Fabric::kUcx});
  EXPECT_EQ(choose_fabric(extent, "n1", Fabric::kTcp, Layout::kSingle).status().code(), Code::kUnsupported);
}

/// Connects to nobody: it is there.
class Nowhere final : public fabric::Connector {
 public:
  Fabric fabric() const override { return Fabric::kFake; }
  Result<std::unique_ptr<fabric::Channel>> connect(const FabricAddress&, const fabric::Credentials&,
                                                   os::Deadline) override {
    return Code::kPeerLost;
  }
};

TEST(NextFabric, GoesDownTheRanksAndEnds) {
  Nowhere nowhere;
  fabric::fake::install(&nowhere);
  const auto extent = on("n2", {Fabric::kFake, Fabric::kTcp});
  EXPECT_EQ(next_fabric(extent, Fabric::kUcx, Layout::kSingle), Fabric::kTcp);
  EXPECT_EQ(next_fabric(extent, Fabric::kTcp, Layout::kReplicated), Fabric::kFake);
  EXPECT_EQ(next_fabric(extent, Fabric::kFake, Layout::kSingle), Fabric::kAny);
  fabric::fake::install(nullptr);
  EXPECT_EQ(next_fabric(extent, Fabric::kTcp, Layout::kSingle), Fabric::kAny);
}

}  // namespace
}  // namespace ocm::client
