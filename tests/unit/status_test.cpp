// base/status: a failure's node and subject are fields of it; base/text: prefixes that cut no character.
#include "base/status.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace ocm {
namespace {

static_assert(sizeof(Status) <= 3 * sizeof(void*));

TEST(Status, NamesItsNodeInTheSentenceAndAsAField) {
  const Status status = Status::of_node(Code::kDraining, "n2", " is shutting down");
  EXPECT_EQ(status.code(), Code::kDraining);
  EXPECT_EQ(status.message(), "node n2 is shutting down");
  EXPECT_EQ(status.node(), "n2");
  EXPECT_EQ(status.subject_kind(), Subject::kNone);
}

TEST(Status, WhoFirstDecidesNamesTheNodeAndTheSubject) {
  const Status status = Status(Code::kLost, "gone").with_node("n1").with_subject(Subject::kColumn, "price");
  const Status outer = status.with_node("n2").with_subject(Subject::kTable, "orders");
  EXPECT_EQ(outer.node(), "n1");
  EXPECT_EQ(outer.subject(), "price");
  EXPECT_EQ(outer.subject_kind(), Subject::kColumn);
}

TEST(Status, OtherWordsKeepTheFields) {
  const Status status = Status::of_node(Code::kDeadline, "n2", ": late").with_subject(Subject::kTable, "t");
  const Status other = status.with_code(Code::kPeerLost).with_message("table t: late");
  EXPECT_EQ(other.to_string(), "PEER_LOST: table t: late");
  EXPECT_EQ(other.node(), "n2");
  EXPECT_EQ(other.subject(), "t");
  EXPECT_EQ(status.to_string(), "DEADLINE: node n2: late") << "the former is as it was";
}

TEST(Status, ACodeAloneGetsFieldsAndKeepsItsFixedSentence) {
  const Status status = Status(Code::kPeerLost).with_node("n2");
  EXPECT_EQ(status.message(), code_text(Code::kPeerLost));
  EXPECT_EQ(status.to_string(), "PEER_LOST");
  EXPECT_EQ(status.node(), "n2");
}

TEST(Status, AGoodOneIsAboutNothing) {
  const Status status = Status().with_node("n2").with_subject(Subject::kTable, "t").with_message("x");
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(status.node(), "");
  EXPECT_EQ(status.subject_kind(), Subject::kNone);
}

TEST(Utf8Prefix, CutsBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("a\u00e9z", 4), "a\u00e9z");
  EXPECT_EQ(utf8_prefix("a\u00e9z", 2), "a");
  EXPECT_EQ(utf8_prefix("a\u00e9z", 3), "a\u00e9");
  EXPECT_EQ(utf8_prefix("\U0001F600", 3), "");
  EXPECT_EQ(utf8_prefix("ok\xff\xfe", 4), "ok");
  EXPECT_EQ(utf8_prefix("", 4), "");
}

}  // namespace
}  // namespace ocm
