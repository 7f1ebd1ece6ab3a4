// Joining allocations, and what can be done with a sequence, through the C interface.
#include <array>

#include "embedded.h"

namespace {

class Join : public Embedded {
 protected:
  static constexpr uint64_t kLengths[] = {4096, 100000, 8, 65536};

  ocm_allocation* dedicated(uint64_t bytes) { return allocate(bytes, OCM_ALLOCATION_DEDICATED); }
  ocm_allocation* replica_of(uint64_t bytes) {
    ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
    options.layout = OCM_LAYOUT_REPLICATED;
    options.extents = 1;
    ocm_allocation* allocation = nullptr;
    EXPECT_OK(ocm_allocation_create(session, bytes, &options, &allocation));
    return allocation;
  }
  /// Parts of kLengths that hold `all`, one after another.
  std::vector<ocm_allocation*> filled(const std::vector<uint8_t>& all) {
    std::vector<ocm_allocation*> parts;
    uint64_t at = 0;
    for (const uint64_t bytes : kLengths) {
      parts.push_back(dedicated(bytes));
      EXPECT_OK(ocm_put(parts.back(), 0, all.data() + at, bytes));
      at += bytes;
    }
    return parts;
  }
  static uint64_t total() {
    uint64_t sum = 0;
    for (const uint64_t bytes : kLengths) sum += bytes;
    return sum;
  }
  ocm_allocation* join(const std::vector<ocm_allocation*>& parts) {
    ocm_allocation* joined = nullptr;
    EXPECT_OK(ocm_allocation_join(session, parts.data(), parts.size(), &joined));
    return joined;
  }
  int status_of(const std::vector<ocm_allocation*>& parts) {
    ocm_allocation* joined = nullptr;
    return ocm_allocation_join(session, parts.data(), parts.size(), &joined);
  }
  uint64_t used_bytes() {
    ocm_node_info node{};
    const auto visit = [](const ocm_node_info* info, void* context) {
      *static_cast<ocm_node_info*>(context) = *info;
      return true;
    };
    EXPECT_OK(ocm_node_list(session, visit, &node));
    return node.used_bytes[OCM_KIND_DRAM];
  }
};

TEST_F(Join, OffsetsRunOnFromPartToPart) {
  const auto all = numbers(total());
  ocm_allocation* joined = join(filled(all));
  EXPECT_EQ(ocm_allocation_bytes(joined), total());
  std::vector<uint8_t> back(total());
  ASSERT_OK(ocm_get(joined, 0, back.data(), back.size()));
  EXPECT_EQ(back, all);
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{4090}, uint64_t{4096}, uint64_t{104090}, uint64_t{104103}}) {
    uint8_t some[20];
    ASSERT_OK(ocm_get(joined, offset, some, sizeof(some)));
    EXPECT_EQ(std::memcmp(some, all.data() + offset, sizeof(some)), 0) << offset;
  }
  uint8_t byte = 0;
  EXPECT_EQ(ocm_get(joined, total(), &byte, 1), OCM_OUT_OF_RANGE);
  EXPECT_EQ(ocm_get(joined, total() - 1, &byte, 2), OCM_OUT_OF_RANGE);
}

TEST_F(Join, PutsAndCopiesCrossParts) {
  ocm_allocation* joined = join(filled(std::vector<uint8_t>(total())));
  const auto all = numbers(total(), 9);
  ASSERT_OK(ocm_put(joined, 0, all.data(), all.size()));
  ocm_allocation* plain = dedicated(total());
  ASSERT_OK(ocm_copy(ocm_place_in(plain, 0), ocm_place_in(joined, 0), total()));
  std::vector<uint8_t> back(total());
  ASSERT_OK(ocm_get(plain, 0, back.data(), back.size()));
  EXPECT_EQ(back, all);
  ASSERT_OK(ocm_copy(ocm_place_in(joined, 4000), ocm_place_in(plain, 0), 1000));
  ASSERT_OK(ocm_get(joined, 4000, back.data(), 1000));
  EXPECT_EQ(std::memcmp(back.data(), all.data(), 1000), 0);
}

TEST_F(Join, VectoredGetsReadAnyParts) {
  const auto all = numbers(total());
  ocm_allocation* joined = join(filled(all));
  std::vector<std::vector<uint8_t>> pieces;
  std::vector<ocm_segment> segments;
  for (uint64_t offset = 0; offset + 700 < total(); offset += 650) {
    pieces.emplace_back(700);
    segments.push_back({offset, pieces.back().data(), 700});
  }
  ASSERT_OK(ocm_getv(joined, segments.data(), segments.size()));
  for (size_t i = 0; i < pieces.size(); ++i)
    EXPECT_EQ(std::memcmp(pieces[i].data(), all.data() + segments[i].offset, 700), 0) << i;
}

TEST_F(Join, PointersOfPartsStayValid) {
  ocm_allocation* first = dedicated(kMiB);
  ocm_allocation* second = dedicated(kMiB);
  void *before = nullptr, *after = nullptr;
  ASSERT_OK(ocm_allocation_map(second, 0, kMiB, &before));
  std::memset(before, 7, kMiB);
  ocm_allocation* joined = join({first, second});
  ASSERT_OK(ocm_allocation_map(joined, kMiB, kMiB, &after));
  EXPECT_EQ(before, after);
  static_cast<uint8_t*>(before)[5] = 9;
  uint8_t bytes[2];
  ASSERT_OK(ocm_get(joined, kMiB + 4, bytes, 2));
  EXPECT_EQ(bytes[0], 7);
  EXPECT_EQ(bytes[1], 9);
  EXPECT_EQ(ocm_allocation_map(joined, kMiB - 1, 2, &after), OCM_UNSUPPORTED);
  EXPECT_EQ(ocm_allocation_map(joined, 2 * kMiB, 1, &after), OCM_OUT_OF_RANGE);
}

TEST_F(Join, TellsOfItsExtents) {
  ocm_allocation* joined = join(filled(numbers(total())));
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  ASSERT_OK(ocm_allocation_query(joined, &info));
  EXPECT_EQ(info.layout, OCM_LAYOUT_SEQUENCE);
  EXPECT_EQ(info.extents, std::size(kLengths));
  uint64_t at = 0;
  for (uint32_t i = 0; i < info.extents; ++i) {
    ocm_extent_info extent = OCM_EXTENT_INFO_INIT;
    ASSERT_OK(ocm_allocation_extent_query(joined, i, &extent));
    EXPECT_EQ(extent.offset, at);
    EXPECT_EQ(extent.bytes, kLengths[i]);
    EXPECT_TRUE(extent.local);
    EXPECT_FALSE(extent.lost);
    at += kLengths[i];
  }
}

TEST_F(Join, IsCoherentWhereAllPartsAre) {
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  const auto coherent = [this] { return allocate(4096, OCM_ALLOCATION_COHERENT); };
  ASSERT_OK(ocm_allocation_query(join({coherent(), coherent()}), &info));
  EXPECT_TRUE(info.coherent);
  EXPECT_FALSE(info.durable);
  EXPECT_EQ(info.kind, OCM_KIND_DRAM);
  ASSERT_OK(ocm_allocation_query(join({coherent(), dedicated(4096)}), &info));
  EXPECT_FALSE(info.coherent);
}

TEST_F(Join, PartsAreNoMore) {
  const auto parts = filled(numbers(total()));
  const uint64_t used = used_bytes();
  ocm_allocation* joined = join(parts);
  EXPECT_EQ(used_bytes(), used);
  uint8_t byte = 0;
  for (ocm_allocation* part : parts) {
    EXPECT_EQ(ocm_get(part, 0, &byte, 1), OCM_REVOKED);
    EXPECT_EQ(ocm_allocation_free(part), OCM_REVOKED);
  }
  EXPECT_EQ(status_of(parts), OCM_REVOKED);
  EXPECT_OK(ocm_allocation_free(joined));
  for (int i = 0; i < 2000 && used_bytes() != 0; ++i) continue;
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(Join, RefusedPartsAreAsTheyWere) {
  ocm_allocation* one = dedicated(kMiB);
  ocm_allocation* other = dedicated(kMiB);
  ocm_allocation* named = dedicated(kMiB);
  ASSERT_OK(ocm_allocation_publish(named, "named", 0));
  ocm_allocation* small = allocate(100);
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.layout = OCM_LAYOUT_STRIPED;
  ocm_allocation* striped = nullptr;
  ASSERT_OK(ocm_allocation_create(session, kMiB, &options, &striped));
  ocm_allocation* replicated = replica_of(kMiB);
  EXPECT_EQ(status_of({}), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_join(session, nullptr, 1, &one), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_join(session, &one, 1, nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(status_of({one, nullptr}), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(status_of({one, other, one}), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(ocm_last_error(), "parts 0 and 2 are the same allocation: give each once");
  EXPECT_EQ(status_of({one, named}), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(ocm_last_error(), "part 1 is published as named: join the parts before publishing");
  EXPECT_EQ(status_of({one, replicated}), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(status_of({one, small}), OCM_UNSUPPORTED);
  EXPECT_EQ(status_of({one, striped}), OCM_UNSUPPORTED);
  EXPECT_EQ(status_of(std::vector<ocm_allocation*>(8193, one)), OCM_TOO_LARGE);
  const uint64_t word = 5;
  for (ocm_allocation* part : {one, other, named, small, striped, replicated})
    EXPECT_OK(ocm_put(part, 0, &word, 8));
  ocm_allocation* joined = join({one, other});
  EXPECT_EQ(status_of({joined, dedicated(kMiB)}), OCM_UNSUPPORTED);
}

TEST_F(Join, PartsOfAnotherSessionAreRefused) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.flags = OCM_SESSION_EMBEDDED;
  ocm_session* other = nullptr;
  ASSERT_OK(ocm_session_open(&options, &other));
  ocm_allocation* mine = dedicated(kMiB);
  ocm_allocation* joined = nullptr;
  EXPECT_EQ(ocm_allocation_join(other, &mine, 1, &joined), OCM_INVALID_ARGUMENT);
  EXPECT_OK(ocm_session_close(other));
  EXPECT_OK(ocm_allocation_free(mine));
}

TEST_F(Join, IsPublishedAttachedAndRemoved) {
  const auto all = numbers(total());
  ocm_allocation* joined = join(filled(all));
  ASSERT_OK(ocm_allocation_publish(joined, "sequence", 0));
  ocm_allocation* reader = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "sequence", OCM_ACCESS_READ, &reader));
  std::vector<uint8_t> back(total());
  ASSERT_OK(ocm_get(reader, 0, back.data(), back.size()));
  EXPECT_EQ(back, all);
  void* pointer = nullptr;
  ASSERT_OK(ocm_allocation_map(reader, 4096, 100000, &pointer));
  EXPECT_EQ(std::memcmp(pointer, all.data() + 4096, 100000), 0);
  EXPECT_EQ(ocm_put(reader, 0, all.data(), 8), OCM_PERMISSION);
  std::vector<ocm_name_info> names;
  const auto visit = [](const ocm_name_info* info, void* context) {
    static_cast<std::vector<ocm_name_info>*>(context)->push_back(*info);
    return true;
  };
  ASSERT_OK(ocm_name_list(session, "", visit, &names));
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0].layout, OCM_LAYOUT_SEQUENCE);
  EXPECT_EQ(names[0].extents, std::size(kLengths));
  EXPECT_FALSE(names[0].lost);
  ASSERT_OK(ocm_name_remove(session, "sequence"));
  EXPECT_EQ(ocm_get(reader, 0, back.data(), back.size()), OCM_REVOKED);
}

TEST_F(Join, AtomicsWorkWhereAPartIsAligned) {
  ocm_allocation* joined = join({dedicated(4096), dedicated(100), dedicated(4096)});
  uint64_t old = 1;
  EXPECT_OK(ocm_atomic_fetch_add(joined, 4096, 3, &old));
  EXPECT_EQ(old, 0u);
  EXPECT_OK(ocm_atomic_fetch_add(joined, 4096, 3, &old));
  EXPECT_EQ(old, 3u);
  EXPECT_EQ(ocm_atomic_fetch_add(joined, 4192, 1, &old), OCM_UNSUPPORTED);  // across two parts
  EXPECT_EQ(ocm_atomic_fetch_add(joined, 4200, 1, &old), OCM_UNSUPPORTED);  // 4 bytes into the third
}

TEST_F(Join, OnePartIsASequenceToo) {
  const auto all = numbers(kMiB);
  ocm_allocation* only = dedicated(kMiB);
  ASSERT_OK(ocm_put(only, 0, all.data(), kMiB));
  ocm_allocation* joined = join({only});
  std::vector<uint8_t> back(kMiB);
  ASSERT_OK(ocm_get(joined, 0, back.data(), kMiB));
  EXPECT_EQ(back, all);
  ASSERT_OK(ocm_put(joined, 5, all.data(), 8));
}

TEST_F(Join, ReplicatedPartsAreReadOnly) {
  const auto all = numbers(2 * kMiB);
  ocm_allocation* parts[2] = {replica_of(kMiB), replica_of(kMiB)};
  for (size_t i = 0; i < 2; ++i) ASSERT_OK(ocm_put(parts[i], 0, all.data() + i * kMiB, kMiB));
  ocm_allocation* joined = join({parts[0], parts[1]});
  EXPECT_EQ(ocm_put(joined, 0, all.data(), 8), OCM_UNSUPPORTED);
  EXPECT_EQ(ocm_atomic_fetch_add(joined, 0, 1, nullptr), OCM_UNSUPPORTED);
  ASSERT_OK(ocm_allocation_publish(joined, "replicas", 0));
  ocm_allocation* reader = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "replicas", OCM_ACCESS_READ, &reader));
  std::vector<uint8_t> back(2 * kMiB);
  ASSERT_OK(ocm_get(reader, 0, back.data(), back.size()));
  EXPECT_EQ(back, all);
  void* pointer = nullptr;
  ASSERT_OK(ocm_allocation_map(reader, kMiB, kMiB, &pointer));
  EXPECT_EQ(std::memcmp(pointer, all.data() + kMiB, kMiB), 0);
}

TEST_F(Join, ManyExtentsAreOneAllocation) {
  constexpr size_t kParts = 3000;
  std::vector<ocm_allocation*> parts;
  for (uint32_t i = 0; i < kParts; ++i) {
    parts.push_back(dedicated(4096));
    ASSERT_OK(ocm_put(parts.back(), 4092, &i, 4));
  }
  ocm_allocation* joined = join(parts);
  ASSERT_OK(ocm_allocation_publish(joined, "many", 0));
  ocm_allocation* reader = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "many", OCM_ACCESS_READ, &reader));
  std::vector<uint32_t> seen(kParts);
  std::vector<ocm_segment> segments;
  for (size_t i = 0; i < kParts; ++i) segments.push_back({i * 4096 + 4092, &seen[i], 4});
  ASSERT_OK(ocm_getv(reader, segments.data(), segments.size()));
  for (uint32_t i = 0; i < kParts; ++i) EXPECT_EQ(seen[i], i);
  ASSERT_OK(ocm_name_remove(session, "many"));
}

}  // namespace
