// What voters note of names: control/notes.h, and a voter that notes.
#include "control/notes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "control/voting_wire.h"
#include "council_fixture.h"
#include "filled.h"

namespace ocm::control {
namespace {

using namespace test;

NameNote note_of(char id, const std::string& name, uint64_t sequence, uint32_t mode = 0600) {
  return {.id = filled<AllocationId>(id),
          .name = name,
          .owner_uid = 1000,
          .mode = mode,
          .homes = {"a", "b"},
          .sequence = sequence};
}
NameNote removal_of(char id, uint64_t sequence) {
  return {.id = filled<AllocationId>(id), .sequence = sequence};
}
/// Different for each.
AllocationId id_of_number(uint64_t number) {
  AllocationId out = filled<AllocationId>('i');
  std::memcpy(out.bytes.data(), &number, sizeof(number));
  return out;
}

TEST(NameNotes, TheNewestCountsWhateverOrderTheyComeIn) {
  for (const bool late : {false, true}) {
    NameNotes notes;
    EXPECT_TRUE(notes.take(note_of('1', "x", late ? 2 : 1, late ? 0644 : 0600)));
    EXPECT_TRUE(notes.take(note_of('1', "x", late ? 1 : 2, late ? 0600 : 0644)));
    EXPECT_EQ(notes.names().at(filled<AllocationId>('1')).mode, 0644u);
    EXPECT_EQ(notes.sequence(), 2u);
    EXPECT_TRUE(notes.is_valid());
  }
}

TEST(NameNotes, ARemovalIsFinal) {
  NameNotes notes;
  EXPECT_TRUE(notes.take(note_of('1', "x", 1)));
  EXPECT_TRUE(notes.take(removal_of('1', 2)));
  EXPECT_TRUE(notes.take(note_of('1', "x", 3)));
  EXPECT_TRUE(notes.names().empty());
  EXPECT_TRUE(notes.was_removed(filled<AllocationId>('1')));
  NameNotes other;
  EXPECT_TRUE(other.take(note_of('1', "x", 9)));
  other.merge(notes);
  EXPECT_TRUE(other.names().empty()) << "K1";
  EXPECT_TRUE(other.is_valid());
}

TEST(NameNotes, TheOldestRemovalGoesAndNoName) {
  NameNotes notes;
  for (uint64_t i = 0; i <= kRemovedMax; ++i) EXPECT_TRUE(notes.take({.id = id_of_number(i), .sequence = i}));
  EXPECT_EQ(notes.removed().size(), kRemovedMax);
  EXPECT_FALSE(notes.was_removed(id_of_number(0)));
  EXPECT_TRUE(notes.was_removed(id_of_number(kRemovedMax)));
}

TEST(NameNotes, ThereIsRoomForSoManyNames) {
  NameNotes notes;
  NameNote note = note_of('1', "x", 1);
  uint64_t taken = 0;
  for (; taken <= kNotedMax; ++taken) {
    note.id = id_of_number(taken);
    note.name = "x" + std::to_string(taken);
    if (!notes.take(note)) break;
  }
  EXPECT_GT(taken, kNotedMax / 2);
  EXPECT_LE(taken, kNotedMax) << "K3";
  EXPECT_TRUE(notes.is_valid());
  EXPECT_TRUE(notes.take({.id = id_of_number(0), .sequence = 2})) << "a removal has room, and makes some";
  EXPECT_TRUE(notes.take(note));
  NameNote many = note_of('2', "y", 3);
  many.homes.assign(8192, std::string(63, 'h'));
  size_t long_ones = 0;
  for (NameNotes long_notes; long_notes.take(many) && long_ones < kNotedMax; ++long_ones)
    many.id = id_of_number(long_ones), many.name = "y" + std::to_string(long_ones);
  EXPECT_LT(long_ones, 20u) << "bytes count, too";
}

TEST(NameNotes, OneUserHasHalfOfTheRoomAndAllUsersThreeQuarters) {
  NameNotes notes;
  uint64_t next = 0;
  const auto fill = [&](uint32_t uid) {
    NameNote note = note_of('1', "x", 1);
    note.owner_uid = uid;
    uint64_t taken = 0;
    for (;; ++taken) {
      note.name = "x" + std::to_string(next);
      note.id = id_of_number(next++);
      if (!notes.take_new(note)) return taken;
    }
  };
  EXPECT_EQ(fill(1000), kNotedMax / 2);
  EXPECT_EQ(fill(1001), kNotedMax / 4);
  EXPECT_EQ(fill(1002), 0u);
  NameNote known = note_of('1', "y", 2);
  known.owner_uid = 1000;
  known.id = id_of_number(0);
  EXPECT_TRUE(notes.take_new(known));  // it has its room already
  EXPECT_EQ(fill(0), kNotedMax / 4) << "root has the rest";
  EXPECT_TRUE(notes.is_valid());
  NameNotes merged;
  merged.merge(notes);
  EXPECT_EQ(merged.names().size(), kNotedMax) << "what was noted is noted by all";
}

TEST(NameNotes, WhatChangedSinceIsToldOnce) {
  NameNotes notes;
  EXPECT_TRUE(notes.take(note_of('1', "x", 1)));
  const uint64_t before = notes.version();
  EXPECT_TRUE(notes.take(note_of('2', "y", 2)));
  EXPECT_TRUE(notes.take(note_of('2', "y", 3, 0644)));
  EXPECT_TRUE(notes.take(removal_of('1', 4)));
  const auto since = notes.since(before);
  ASSERT_TRUE(since.has_value());
  NameNotes other;
  EXPECT_TRUE(other.take(note_of('1', "x", 1)));
  for (const NameNote& one : *since) EXPECT_TRUE(other.take(one));
  EXPECT_EQ(other.names(), notes.names());
  EXPECT_EQ(other.removed(), notes.removed());
  EXPECT_EQ(since->size(), 2u);
  notes.clear();
  EXPECT_FALSE(notes.since(before).has_value()) << "all is to be written again";
}

TEST(NameNotes, ANameHasOneNoteTheNewest) {
  for (const bool late : {false, true}) {
    NameNotes notes;
    EXPECT_TRUE(notes.take(note_of(late ? '2' : '1', "x", late ? 2 : 1)));
    const uint64_t before = notes.version();
    EXPECT_TRUE(notes.take(note_of(late ? '1' : '2', "x", late ? 1 : 2)));
    ASSERT_EQ(notes.names().size(), 1u);
    EXPECT_EQ(notes.names().begin()->first, filled<AllocationId>('2')) << "K4";
    EXPECT_FALSE(notes.was_removed(filled<AllocationId>('1'))) << "it may get another name";
    EXPECT_TRUE(notes.is_valid());
    NameNotes other;
    EXPECT_TRUE(other.take(note_of(late ? '2' : '1', "x", late ? 2 : 1)));
    const auto since = notes.since(before), all = notes.since(0);
    ASSERT_TRUE(since.has_value() && all.has_value());
    for (const NameNote& one : *since) EXPECT_TRUE(other.take(one));
    EXPECT_EQ(other.names(), notes.names());
    for (const NameNote& one : *all) EXPECT_FALSE(one.is_removal());
    EXPECT_TRUE(notes.take(removal_of('2', 3)));
    EXPECT_TRUE(notes.names().empty()) << "what it ended is not back";
    EXPECT_TRUE(notes.take(note_of('1', "y", 4)));
    EXPECT_TRUE(notes.is_valid());
  }
}

/// To a's voter of `One`, of its council's coordinator.
NoteRequest request_of(const Council& in, NameNote note) {
  return {in.id, coordinator_of(in).incarnation, {std::move(note)}};
}

TEST_F(One, NotesForItsCouncilsCoordinatorAlone) {
  NoteRequest request = request_of(in, note_of('1', "x", 1));
  EXPECT_TRUE(v.note(request).is_ok());
  EXPECT_EQ(v.notes().names().size(), 1u);
  request.by = run_of('z');
  EXPECT_EQ(v.note(request).code(), Code::kPermission);
  request = request_of(in, note_of('2', "y", 2));
  request.council = in.id + 1;
  EXPECT_EQ(v.note(request).code(), Code::kPeerLost);
  EXPECT_EQ(v.notes().names().size(), 1u);
}

TEST_F(One, NotesNothingOnceItIsSealedAndHandsOnWhatItNoted) {
  ASSERT_TRUE(v.note(request_of(in, note_of('1', "x", 1))).is_ok());
  ASSERT_TRUE(v.note(request_of(in, removal_of('2', 2))).is_ok());
  const auto promise = v.seal(kWorldStart + kLease, sealing(in, 2));
  ASSERT_TRUE(promise.is_ok() && promise.value().agreed);
  EXPECT_EQ(v.note(request_of(in, note_of('3', "z", 3))).code(), Code::kPeerLost) << "K2";
  EXPECT_EQ(promise.value().state.notes.names(), v.notes().names());
  MadeCouncil next = council(2, {voter("a"), voter("b"), voter("c")});
  merge(next.state, promise.value().state);
  ASSERT_TRUE(v.install(kWorldStart + kLease, next).is_ok());
  EXPECT_TRUE(v.notes().names().contains(filled<AllocationId>('1')));
  EXPECT_TRUE(v.notes().was_removed(filled<AllocationId>('2')));
}

TEST_F(One, ALaterRunRemembersWhatItNoted) {
  VoterMemory memory = v.memory();
  const auto key = v.memory_key();
  ASSERT_TRUE(v.note(request_of(in, note_of('1', "x", 1))).is_ok());
  ASSERT_NE(v.memory_key(), key);
  const auto change = v.memory_since(key);
  ASSERT_TRUE(change.has_value());
  wire::VoterChange message;
  to_wire(*change, message);
  std::vector<VoterChange> changes;
  changes.push_back(from_wire(message));
  apply_changes(memory, std::move(changes));
  wire::VoterMemory saved;
  to_wire(memory, saved);
  auto known = Voter::remembered(kWorldStart, "a", from_wire(saved).value(), kLease);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->notes().names(), v.notes().names());
}

TEST(NameNotes, AreReadAsTheyWereSent) {
  VoterState state;
  EXPECT_TRUE(state.notes.take(note_of('1', "x", 7)));
  EXPECT_TRUE(state.notes.take(removal_of('2', 8)));
  wire::VoterState message;
  to_wire(state, message);
  const VoterState read = from_wire(message);
  EXPECT_EQ(read.notes.names(), state.notes.names());
  EXPECT_EQ(read.notes.removed(), state.notes.removed());
  EXPECT_EQ(read.notes.sequence(), 8u);
  NoteRequest request{5, run_of('a'), {note_of('1', "x", 7), removal_of('2', 8)}};
  wire::NoteNames asked;
  to_wire(request, asked);
  EXPECT_EQ(from_wire(asked).notes, request.notes);
  EXPECT_EQ(from_wire(asked).by, request.by);
  EXPECT_EQ(from_wire(asked).council, 5u);
}

TEST(NameNotes, WhatCanBeNoNameIsLeftOut) {
  wire::NoteNames message;
  message.add_notes()->set_name("x");  // of no allocation
  auto& long_name = *message.add_notes();
  long_name.set_allocation_id(std::string(16, '1'));
  long_name.set_name(std::string(4096, 'x'));
  auto& homes = *message.add_notes();
  homes.set_allocation_id(std::string(16, '2'));
  homes.set_name("y");
  homes.set_mode(~0u);
  homes.add_homes("a/../b");
  homes.add_homes("b");
  const NoteRequest read = from_wire(message);
  ASSERT_EQ(read.notes.size(), 1u);
  EXPECT_EQ(read.notes[0].homes, std::vector<std::string>{"b"});
  EXPECT_EQ(read.notes[0].mode, 0777u);
}

}  // namespace
}  // namespace ocm::control
